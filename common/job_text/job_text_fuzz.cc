// The notations of a job, and assignments to its fields.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/message_fingerprint.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/job_text/fill_message.h"
#include "common/job_text/parse_json_text.h"
#include "common/job_text/parse_textproto.h"
#include "common/job_text/parse_yaml.h"
#include "common/job_text/print_yaml.h"
#include "common/text/message_utf8.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

absl::Status Fill(const absl::StatusOr<TextNode>& root, v1::JobSpec& spec) {
  return root.ok() ? FillMessage(*root, "job", spec) : root.status();
}

// Assigns line by line, up to the first error.
absl::Status Assign(FuzzInput input, v1::JobSpec& spec) {
  while (!input.rest().empty()) {
    const std::string line(input.Until('\n'));
    if (absl::Status status = AssignField(line, "--set", spec); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Read(FuzzInput& input, v1::JobSpec& spec) {
  const unsigned notation = input.Choice(4);
  const std::string text(input.rest());
  switch (notation) {
    case 0:
      return Fill(ParseYaml(text, "job"), spec);
    case 1:
      return Fill(ParseJsonText(text, "job"), spec);
    case 2:
      return Fill(ParseTextproto(text, "job"), spec);
    default:
      return Assign(input, spec);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  v1::JobSpec spec;
  if (const absl::Status status = Read(input, spec); !status.ok()) {
    FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    // Errors quote what is not understood, and errors list the fields of a group.
    FUZZ_CHECK(status.message().size() < 4000 + 4 * size);
    return 0;
  }
  if (!CheckUtf8(spec).ok()) return 0;
  const std::string yaml = PrintYaml(spec);
  v1::JobSpec again;
  FUZZ_CHECK(Fill(ParseYaml(yaml, "printed"), again).ok());
  FUZZ_CHECK(FingerprintOf(again) == FingerprintOf(spec));
  return 0;
}

}  // namespace muster
