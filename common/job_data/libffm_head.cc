#include "common/job_data/libffm_head.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/compression/unpacked_file.h"

namespace muster {
namespace {

constexpr size_t kLibffmHeadBytes = 64 << 10;

}  // namespace

LibffmHead ReadLibffmHead(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<UnpackedFile>> file = UnpackedFile::Open(path);
  if (!file.ok()) return {};
  std::string text(kLibffmHeadBytes, '\0');
  const absl::StatusOr<size_t> got = (*file)->Read(absl::MakeSpan(text));
  if (!got.ok()) return {};
  text.resize(*got);
  const size_t end = text.rfind('\n');
  if (end == std::string::npos) return {};
  text.resize(end + 1);
  LibffmHead head;
  // Packed bytes are read in larger pieces than the head has, so these may be more than it needs.
  head.bytes_in_file = static_cast<double>((*file)->packed() ? (*file)->bytes_read() : text.size());
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    ++head.lines;
    head.entries = std::max(head.entries, static_cast<double>(words.size() - 1));
    for (size_t i = 1; i < words.size(); ++i) {
      uint64_t field = 0;
      if (!absl::SimpleAtoi(words[i].substr(0, words[i].find(':')), &field)) return {};
      head.fields = std::max(head.fields, field + 1);
    }
  }
  return head;
}

}  // namespace muster
