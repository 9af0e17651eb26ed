#!/bin/sh
# Runs files of test cases in Python with Debian's interpreter, for which Debian's packages are installed. As in GoogleTest's
# programs, --test_filter=-*Exhaustive* leaves out the cases with this word in their name.
[ "$TESTBRIDGE_TEST_ONLY" != '-*Exhaustive*' ] || set -- "$@" -k 'not exhaustive'
exec /usr/bin/python3 -m pytest -q -p no:cacheprovider --basetemp="$TEST_TMPDIR/pytest" --junitxml="$XML_OUTPUT_FILE" "$@"
