#include "common/program/folder_archive.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/program/content_hash.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kBegin = "MUSTER FOLDER 1\n";
constexpr char kEnd = 'e';
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostPartBytes = 255;
constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kMostShown = 100;

void AppendNumber(uint64_t number, int bytes, std::string& text) {
  for (int i = 0; i < bytes; ++i, number >>= 8) text.push_back(static_cast<char>(number & 0xff));
}

uint64_t NumberIn(absl::string_view text) {
  uint64_t number = 0;
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte) {
    number = number << 8 | static_cast<unsigned char>(*byte);
  }
  return number;
}

// Returns whether a path names something below a folder, by itself and without links.
bool IsPlainPath(absl::string_view path) {
  if (path.size() > kMostPathBytes || path.find('\0') != absl::string_view::npos) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= kMostPartBytes;
  });
}

// The archive's bytes in order, each of which is hashed.
class Cursor {
 public:
  Cursor(const StorageReader& reader, absl::string_view name) : reader_(reader), name_(name) {}

  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("the shipped folder ", PrintableLine(name_),
                                            " is damaged at byte ", at(), ": ", what));
  }

  // Bytes that are left.
  uint64_t left() const { return reader_.size() - at(); }

  // Takes up to `most` bytes, which stay until the next call: at least one unless `most` is 0.
  absl::StatusOr<absl::string_view> TakeSome(uint64_t most) {
    if (most > left()) return Damaged("it ends too early");
    if (most > 0 && buffered_.empty()) MUSTER_RETURN_IF_ERROR(Fill());
    const absl::string_view taken = buffered_.substr(0, most);
    buffered_.remove_prefix(taken.size());
    return taken;
  }

  // Takes all of these bytes, which are few.
  absl::StatusOr<std::string> Take(size_t bytes) {
    std::string all;
    while (all.size() < bytes) {
      MUSTER_ASSIGN_OR_RETURN(const absl::string_view some, TakeSome(bytes - all.size()));
      absl::StrAppend(&all, some);
    }
    return all;
  }

  // Checks that all was taken, and that it is what the name says.
  absl::Status End() {
    if (left() > 0) return Damaged("bytes follow its end");
    if (hash_.Name() == name_) return absl::OkStatus();
    return Damaged("its bytes are not those that its name says");
  }

 private:
  uint64_t at() const { return read_ - buffered_.size(); }

  absl::Status Fill() {
    buffer_.resize(std::min<uint64_t>(kBufferBytes, reader_.size() - read_));
    MUSTER_RETURN_IF_ERROR(
        reader_.Read(read_, {reinterpret_cast<std::byte*>(buffer_.data()), buffer_.size()}));
    read_ += buffer_.size();
    buffered_ = buffer_;
    hash_.Add(buffered_);
    return absl::OkStatus();
  }

  const StorageReader& reader_;
  const absl::string_view name_;
  ContentHash hash_;
  std::string buffer_;
  // What is left of the buffer, and the offset of its end.
  absl::string_view buffered_;
  uint64_t read_ = 0;
};

// Reads the entries one by one.
class Entries {
 public:
  explicit Entries(Cursor& cursor) : cursor_(cursor) {}

  // Reads the next entry up to a file's content. Returns whether there is one.
  absl::StatusOr<bool> Next(ArchiveEntry& entry) {
    MUSTER_ASSIGN_OR_RETURN(const std::string kind, cursor_.Take(1));
    if (kind[0] == kEnd) return false;
    if (kind != "d" && kind != "f" && kind != "x") {
      return cursor_.Damaged("what is neither folder, file nor end");
    }
    if (++count_ > kMostArchiveEntries) {
      return cursor_.Damaged(
          absl::StrCat("it has more than ", kMostArchiveEntries, " files and folders"));
    }
    entry.kind = static_cast<ArchiveEntry::Kind>(kind[0]);
    MUSTER_RETURN_IF_ERROR(ReadPath(entry));
    entry.bytes = 0;
    if (entry.kind == ArchiveEntry::Kind::kFolder) return true;
    MUSTER_ASSIGN_OR_RETURN(const std::string length, cursor_.Take(8));
    entry.bytes = NumberIn(length);
    if (entry.bytes > cursor_.left()) return cursor_.Damaged("a file ends beyond it");
    return true;
  }

 private:
  absl::Status ReadPath(ArchiveEntry& entry) {
    MUSTER_ASSIGN_OR_RETURN(const std::string length, cursor_.Take(4));
    if (NumberIn(length) > kMostPathBytes) return cursor_.Damaged("a path is too long");
    MUSTER_ASSIGN_OR_RETURN(entry.path, cursor_.Take(NumberIn(length)));
    const std::string shown = PrintableLine(CutUtf8(entry.path, kMostShown));
    if (!IsPlainPath(entry.path)) {
      return cursor_.Damaged(absl::StrCat("\"", shown, "\" names nothing within a folder"));
    }
    if (entry.path <= last_) {
      return cursor_.Damaged(absl::StrCat("\"", shown, "\" is out of order"));
    }
    if (const size_t slash = entry.path.rfind('/');
        slash != std::string::npos && !folders_.contains(entry.path.substr(0, slash))) {
      return cursor_.Damaged(absl::StrCat("\"", shown, "\" is in a folder that did not come"));
    }
    last_ = entry.path;
    if (entry.kind == ArchiveEntry::Kind::kFolder) folders_.insert(entry.path);
    return absl::OkStatus();
  }

  Cursor& cursor_;
  size_t count_ = 0;
  std::string last_;
  absl::flat_hash_set<std::string> folders_;
};

}  // namespace

ArchiveWriter::ArchiveWriter(std::string& archive) : archive_(archive) {
  absl::StrAppend(&archive_, kBegin);
}

void ArchiveWriter::Add(const ArchiveEntry& entry, absl::string_view content) {
  archive_.push_back(static_cast<char>(entry.kind));
  AppendNumber(entry.path.size(), 4, archive_);
  absl::StrAppend(&archive_, entry.path);
  if (entry.kind == ArchiveEntry::Kind::kFolder) return;
  AppendNumber(content.size(), 8, archive_);
  absl::StrAppend(&archive_, content);
}

void ArchiveWriter::End() { archive_.push_back(kEnd); }

absl::Status ReadArchive(const StorageReader& reader, absl::string_view name, ArchiveSink& sink) {
  Cursor cursor(reader, name);
  if (reader.size() > kMostArchiveBytes) {
    return cursor.Damaged(absl::StrCat("it has ", reader.size(), " bytes; at most ",
                                       kMostArchiveBytes, " are taken"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string begin, cursor.Take(kBegin.size()));
  if (begin != kBegin) return cursor.Damaged("it is no archive of a folder");
  Entries entries(cursor);
  ArchiveEntry entry;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool any, entries.Next(entry));
    if (!any) return cursor.End();
    MUSTER_RETURN_IF_ERROR(sink.Begin(entry));
    for (uint64_t left = entry.bytes; left > 0;) {
      MUSTER_ASSIGN_OR_RETURN(const absl::string_view some, cursor.TakeSome(left));
      MUSTER_RETURN_IF_ERROR(sink.Content(some));
      left -= some.size();
    }
    MUSTER_RETURN_IF_ERROR(sink.End());
  }
}

}  // namespace muster
