#include "common/job_data/source_arguments.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "common/compression/unpacked_file.h"
#include "common/files/check_is_text.h"
#include "common/files/text_files.h"
#include "common/tokenizer/files/token_file.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Bytes by which a file is known (common/files/check_is_text.h).
constexpr size_t kKnownByBytes = size_t{64} << 10;

bool IsNamedAsJsonLines(const std::string& path) {
  for (const char* ending : {".jsonl", ".ndjson"}) {
    if (absl::EndsWith(path, ending)) return true;
  }
  return false;
}

}  // namespace

SourceArguments SourceArgumentsOf(const v1::SequenceData& sequences) {
  const v1::DocumentSpec& documents = sequences.documents();
  SourceArguments arguments;
  arguments.field = documents.field();
  arguments.model = documents.model();
  if (!documents.template_name().empty()) arguments.template_name = documents.template_name();
  arguments.raw = documents.raw();
  return arguments;
}

bool NeedsTokenFile(const v1::SequenceData& sequences) {
  const std::string& path = sequences.path();
  if (IsTokenFileAt(path)) return false;
  if (sequences.has_documents()) return true;
  std::error_code error;
  std::vector<std::string> files = {path};
  if (fs::is_directory(path, error)) {
    absl::StatusOr<TextFolder> folder = ListTextFolder(path);
    if (!folder.ok()) return false;
    files = std::move(folder->paths);
  } else if (!fs::exists(path, error)) {
    return path.find_first_of("*?[{") != std::string::npos;
  }
  for (const std::string& file : files) {
    const absl::StatusOr<std::unique_ptr<UnpackedFile>> opened = UnpackedFile::Open(file);
    if (!opened.ok()) return false;
    if ((*opened)->packed()) return true;
    std::string head(kKnownByBytes, '\0');
    const absl::StatusOr<size_t> got = (*opened)->Read(absl::MakeSpan(head));
    if (!got.ok()) return false;
    if (*got == 0) continue;
    head.resize(*got);
    return IsNamedAsJsonLines(file) || !CheckIsText(file, head).ok();
  }
  return false;
}

}  // namespace muster
