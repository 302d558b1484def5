#!/usr/bin/env bash
# Make .venv what requirements.lock says, or do nothing if it is so already.
#
#     deploy/bootstrap.sh [java]      java: see first that there is a Java 17
#
# Everything is checked against hashes: uv by pip, the rest by uv. Nothing outside the checkout is written but the
# download caches of pip and uv. PYTHON names another Python to use than the first fitting one.
set -euo pipefail
cd "$(dirname "$0")/.."

uv_folder=.venv/uv   # beside site-packages: `uv pip sync` would remove it from there
stamp=.venv/isotherm-stamp

fail() {
    echo "isotherm: $*" >&2
    exit 1
}

need_java() {
    local java=java version
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    command -v "$java" >/dev/null 2>&1 \
        || fail "Java 17 is needed, and there is no $java: install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    case "$version" in
        17 | 21) ;;
        *) fail "Java 17 is needed, but $java is version ${version:-unknown}: install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME" ;;
    esac
}

fits() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.11 python3.12 python3.13; do
        if fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed, and there is none: install it (Debian: python3 python3-venv) or set PYTHON"
}

# What .venv was made from, and where: an environment that was moved has its old paths in it.
wanted() {
    cat requirements.lock deploy/bootstrap.lock pyproject.toml
    pwd
}

make_venv() {
    local python
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null \
        || fail "$python has no venv module: install it (Debian: apt-get install python3-venv)"
    rm -rf .venv
    "$python" -m venv .venv
}

install_uv() {
    if cmp -s deploy/bootstrap.lock "$uv_folder/bootstrap.lock"; then
        return
    fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    rm -rf "$uv_folder"
    .venv/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps \
        --target "$uv_folder" -r deploy/bootstrap.lock
    cp deploy/bootstrap.lock "$uv_folder/bootstrap.lock"
}

[ "${1:-}" != java ] || need_java

if fits .venv/bin/python && wanted | cmp -s - "$stamp"; then
    exit 0
fi

echo "isotherm: preparing .venv (only this once) …" >&2
rm -f "$stamp"
fits .venv/bin/python || make_venv
install_uv
"$uv_folder/bin/uv" pip sync --quiet --python .venv/bin/python --require-hashes requirements.lock
"$uv_folder/bin/uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
# uv compiles nothing. Where PYTHONDONTWRITEBYTECODE is set, as in many images, every process would compile what it
# imports again, which takes a command longer than its answer. So what commands and the daemon import is compiled once.
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m isotherm.entry_point policy schema >/dev/null
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -c 'import isotherm.daemon, isotherm.audit.evidence_reader'
wanted >"$stamp"
