#!/bin/sh
# Runs files of test cases in JavaScript with Node's own test runner. Without Node the file is skipped as one case.
if ! command -v node >/dev/null; then
  echo '<testsuites><testcase name="node"><skipped message="node is not installed"/></testcase></testsuites>' > "$XML_OUTPUT_FILE"
  exit 0
fi
exec node --test --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=junit --test-reporter-destination="$XML_OUTPUT_FILE" "$@"
