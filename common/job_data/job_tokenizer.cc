#include "common/job_data/job_tokenizer.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/sequence_sources.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "proto/job.pb.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Tokenizer>> JobTokenizer(const v1::DataSpec& data) {
  const std::vector<const v1::SequenceData*> sources = SequenceSources(data);
  if (sources.empty()) return absl::InvalidArgumentError("the data are no sequences of tokens");
  // All sources have the same.
  const v1::SequenceData& sequences = *sources[0];
  if (!sequences.tokenizer().empty()) return OpenTokenizer(sequences.tokenizer());
  if (IsTokenFileAt(sequences.path())) return OpenTokenizer(sequences.path());
  // A missing file might be a token file.
  std::error_code error;
  if (std::filesystem::exists(sequences.path(), error)) return OpenTokenizer("bytes");
  return absl::NotFoundError(
      absl::StrCat("the data ", sequences.path(), " is not on this machine"));
}

}  // namespace muster
