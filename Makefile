# Every target does all its own set-up; the second time that is nothing. Relative paths only: the checkout may
# stand in a folder with a space in its name. `exec`, so that Ctrl-C and SIGTERM reach the program itself.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo quick test fmt check bench soak lock clean venv venv-java

IN_VENV := .venv/bin/python

# Where it is set, as in many images, each process would compile again what it imports, and pytest rewrite every test.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo 'make demo  [ARGS="--for 2m --report demo.json"]   the whole system on a live PostgreSQL, on this machine'
	@echo 'make test  [ARGS="tests/core -k planner"]          the tests'
	@echo 'make quick [ARGS="-k planner"]                      the tests of a minute: no Java, no servers'
	@echo 'make fmt                                           format, and mend what can be mended'
	@echo 'make check                                         format, lint, types, imports'
	@echo 'make bench [ARGS=…]                                the benchmarks; writes bench.json'
	@echo 'make soak  [ARGS="tests/simulation --for 60m"]     the long tests'
	@echo 'make lock                                          resolve packages and jars again'
	@echo 'make clean                                         remove everything that the others made'

venv:
	@deploy/bootstrap.sh

venv-java:
	@deploy/bootstrap.sh java

demo: venv-java
	@exec $(IN_VENV) -m isotherm.cli demo $(ARGS)

# How the tests are divided between processes: tests/support/division.py. Two of them play tests with servers, which wait
# more than they compute; two further ones take the time that they and their servers leave. ARGS="-n 0" makes it one process,
# for -s or --pdb.
DIVIDED := --no-loadscope-reorder

test: venv-java
	@exec $(IN_VENV) -m pytest -n 4 $(DIVIDED) $(ARGS)

# What needs no server and no daemon as a whole; `make test` has it too.
QUICK := tests/core tests/contract tests/runtime tests/ingest tests/store tests/audit tests/kafka tests/docs \
	tests/deploy tests/telemetry tests/stories

quick: venv
	@exec $(IN_VENV) -m pytest -n 2 $(DIVIDED) -m "not spark and not stack" --hypothesis-profile quick $(QUICK) $(ARGS)

fmt: venv
	@$(IN_VENV) -m ruff check --fix .
	@$(IN_VENV) -m ruff format .

check: venv
	@$(IN_VENV) -m ruff format --check .
	@$(IN_VENV) -m ruff check .
	@$(IN_VENV) -m mypy
	@$(IN_VENV) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

bench: venv-java
	@exec $(IN_VENV) tests/perf/bench.py $(ARGS)

# Exit code 5 is pytest's for "no test was selected": that is a failure here too.
soak: venv-java
	@exec $(IN_VENV) -m pytest -m soak -o timeout=0 $(ARGS)

# The flags are part of the lock: no address of an index in it, and good for every Python from 3.11 on.
COMPILE := .venv/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links

# What is locked stays as it is as long as it may; `make lock ARGS=--upgrade` takes the newest of everything.
lock: venv
	@$(COMPILE) $(ARGS) deploy/bootstrap.in -o deploy/bootstrap.lock
	@$(COMPILE) $(ARGS) --all-extras pyproject.toml -o requirements.lock
	@deploy/bootstrap.sh
	@$(IN_VENV) deploy/jars/lock.py

clean:
	rm -rf .venv .isotherm build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f demo.json bench.json soak.json
	find daemon ingest tests grafana -name __pycache__ -type d -prune -exec rm -rf {} +
