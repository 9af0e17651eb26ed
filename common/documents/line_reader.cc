#include "common/documents/line_reader.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/text/byte_order_mark.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

constexpr size_t kPartBytes = size_t{1} << 18;

}  // namespace

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  return absl::WrapUnique(new LineReader(path, std::move(file)));
}

LineReader::LineReader(std::string path, std::unique_ptr<UnpackedFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<bool> LineReader::Next(absl::string_view& line) {
  size_t searched = next_;
  size_t end = std::string::npos;
  for (;;) {
    end = buffer_.find('\n', searched);
    if (std::min(end, buffer_.size()) - next_ > kMostLineBytes) {
      return LineError(path_, line_ + 1,
                       absl::StrCat("the line has more than ", kMostLineBytes >> 20,
                                    " MiB; divide the document into several"));
    }
    if (end != std::string::npos || at_end_) break;
    buffer_.erase(0, std::exchange(next_, 0));
    searched = buffer_.size();
    // Twice as much each time, so that a long line is moved seldom.
    buffer_.resize(searched + std::max(kPartBytes, searched));
    const absl::StatusOr<size_t> got = file_->Read(absl::MakeSpan(buffer_).subspan(searched));
    if (!got.ok()) {
      return absl::Status(got.status().code(), absl::StrCat(std::string(got.status().message()),
                                                            " (read up to line ", line_ + 1, ")"));
    }
    at_end_ = *got < buffer_.size() - searched;
    buffer_.resize(searched + *got);
  }
  ended_ = end != std::string::npos;
  if (!ended_) end = buffer_.size();
  if (!ended_ && next_ == end) return false;
  line = absl::string_view(buffer_).substr(next_, end - next_);
  if (++line_ == 1) line = SkipByteOrderMark(line);
  next_ = end + (ended_ ? 1 : 0);
  return true;
}

}  // namespace muster
