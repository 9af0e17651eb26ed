#ifndef MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_PROGRESS_H_
#define MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tokenizer/files/trained_bits.h"

namespace muster {

// How far a token file is that a TokenFileWriter may go on with: lengths and fingerprints of the
// files that hold it, and what else the writer had in memory.
struct TokenFileProgress {
  // Says what the file is made of, and how; a writer with another source begins anew.
  std::string source;
  // The place in the source up to which documents were added, as whoever adds them writes it.
  std::string position;
  // Bytes of the unfinished file.
  uint64_t bytes = 0;
  uint64_t tokens = 0;
  uint64_t source_bytes = 0;
  uint64_t last_end = 0;
  bool after_text = false;
  // TokenChunks::complete and rest.
  std::vector<uint64_t> chunks;
  uint64_t rest = 0;
  // Bytes and fingerprint of the document ends.
  uint64_t ends = 0;
  uint64_t ends_fingerprint = 0;
  TrainedBits::State trained;
  // Bytes and fingerprint of the trained bits.
  uint64_t packed = 0;
  uint64_t packed_fingerprint = 0;
};

// Writes the progress to a file, which is replaced at once. Errors are WriteOutputFile's.
absl::Status WriteTokenFileProgress(const std::string& path, const TokenFileProgress& progress);

// Returns the progress in a file; nothing if there is no such file, or if it is another one.
std::optional<TokenFileProgress> ReadTokenFileProgress(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_PROGRESS_H_
