#!/bin/sh
# Runs files of test cases in Python with Debian's interpreter, for which Debian's packages are installed.
exec /usr/bin/python3 -m pytest -q -p no:cacheprovider --basetemp="$TEST_TMPDIR/pytest" --junitxml="$XML_OUTPUT_FILE" "$@"
