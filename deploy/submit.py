"""What spark-submit starts: `spark-submit … submit.py run streams.yaml`."""  # noqa: INP001 (a script)

from isotherm_ingest.cli import main

main()
