#include "client/init/found_data.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/files/check_is_text.h"
#include "common/files/text_files.h"
#include "common/text/byte_order_mark.h"
#include "common/tokenizer/token_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Of a file, unpacked: enough to see nearly every class that there is.
constexpr size_t kHeadBytes = size_t{16} << 20;
// Digits and clothes, and most else in this format.
constexpr uint32_t kUsualImageClasses = 10;

struct Head {
  std::string text;
  bool packed = false;
  // Of the unpacked file; of a packed one that is longer than its head a guess.
  uint64_t bytes = 0;
};

absl::StatusOr<Head> ReadHead(const std::string& path) {
  // Reads a plain file as it is.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("cannot read ", path));
  }
  Head head;
  head.text.resize(kHeadBytes);
  const int got = gzread(file.get(), head.text.data(), static_cast<unsigned>(head.text.size()));
  if (got < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " cannot be unpacked; it is damaged"));
  }
  head.text.resize(static_cast<size_t>(got));
  head.packed = gzdirect(file.get()) == 0;
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  head.bytes = !error && !head.packed ? size : head.text.size();
  return head;
}

// Whole lines of it.
absl::string_view WholeLines(const Head& head) {
  const absl::string_view text = SkipByteOrderMark(head.text);
  const size_t end = text.rfind('\n');
  if (head.text.size() < kHeadBytes || end == absl::string_view::npos) return text;
  return text.substr(0, end + 1);
}

uint64_t ScaledUp(uint64_t records, const Head& head) {
  if (head.text.empty()) return 0;
  return static_cast<uint64_t>(static_cast<double>(records) * static_cast<double>(head.bytes) /
                               static_cast<double>(head.text.size()));
}

// "label index:value …".
bool ReadLibsvmLine(absl::string_view line, FoundData& data) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line.substr(0, line.find('#')), ' ', absl::SkipWhitespace());
  double label = 0;
  if (words.size() < 2 || !absl::SimpleAtod(words[0], &label)) return false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(words[i], absl::MaxSplits(':', 1));
    uint64_t index = 0;
    double value = 0;
    if (!absl::SimpleAtoi(entry.first, &index) || !absl::SimpleAtod(entry.second, &value)) {
      return false;
    }
    if (index == 0) data.zero_based = true;
  }
  if (label >= 0 && label < 1e6) {
    data.classes = std::max(data.classes, static_cast<uint32_t>(label) + 1);
  }
  return true;
}

bool IsLibsvm(const Head& head, FoundData& data) {
  uint64_t records = 0;
  for (const absl::string_view each : absl::StrSplit(WholeLines(head), '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(each);
    if (line.empty() || line[0] == '#') continue;
    if (!ReadLibsvmLine(line, data)) return false;
    ++records;
  }
  data.kind = FoundData::Kind::kLibsvm;
  data.classes = std::max(2u, data.classes);
  data.examples = ScaledUp(records, head);
  return records > 0;
}

bool IsIdx(absl::string_view head, char dimensions) {
  return head.size() >= 8 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] == dimensions;
}

absl::StatusOr<FoundData> Images(const Head& head, FoundData data) {
  data.kind = FoundData::Kind::kImages;
  data.labels = absl::StrReplaceAll(data.path, {{"images-idx3", "labels-idx1"}});
  std::error_code error;
  if (data.labels == data.path || !fs::exists(data.labels, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path,
                     " has IDX images; their labels have to be beside it in a file of "
                     "MNIST's naming (…images-idx3…, …labels-idx1…)"));
  }
  for (size_t i = 4; i < 8; ++i) {
    data.examples = data.examples << 8 | static_cast<unsigned char>(head.text[i]);
  }
  MUSTER_ASSIGN_OR_RETURN(const Head labels, ReadHead(data.labels));
  data.classes = kUsualImageClasses;
  for (size_t i = 8; i < labels.text.size(); ++i) {
    data.classes =
        std::max<uint32_t>(data.classes, static_cast<unsigned char>(labels.text[i]) + 1u);
  }
  return data;
}

bool NamesTable(std::string path) {
  if (absl::EndsWithIgnoreCase(path, ".gz")) path.resize(path.size() - 3);
  return absl::EndsWithIgnoreCase(path, ".csv") || absl::EndsWithIgnoreCase(path, ".tsv");
}

absl::Status RefusePacked(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is ", what, " packed by gzip; unpack it first: gunzip -k ", path));
}

absl::StatusOr<FoundData> LookAtFile(const std::string& path) {
  FoundData data;
  data.path = path;
  if (IsTokenFileAt(path)) {
    std::error_code error;
    data.kind = FoundData::Kind::kTokens;
    data.examples = fs::file_size(path, error);
    return data;
  }
  MUSTER_ASSIGN_OR_RETURN(const Head head, ReadHead(path));
  if (head.text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty; there is nothing to learn"));
  }
  if (IsIdx(head.text, 3)) return Images(head, std::move(data));
  if (IsIdx(head.text, 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has IDX labels; name the file with the images"));
  }
  MUSTER_RETURN_IF_ERROR(CheckIsText(path, head.text));
  if (IsLibsvm(head, data)) {
    if (head.packed) return RefusePacked(path, "libsvm data");
    return data;
  }
  data = FoundData();
  data.path = path;
  std::optional<CsvGuess> table = GuessCsv(WholeLines(head));
  // Prose may have as many commas in each line, but hardly a column of classes besides.
  if (table.has_value() && (NamesTable(path) || (table->records >= 5 && !table->label.empty()))) {
    data.kind = FoundData::Kind::kTable;
    data.examples = ScaledUp(table->records, head);
    data.table = *std::move(table);
    return data;
  }
  if (head.packed) return RefusePacked(path, "a text");
  data.kind = FoundData::Kind::kText;
  data.examples = head.bytes;
  return data;
}

absl::StatusOr<FoundData> LookAtFolder(const std::string& path) {
  FoundData data;
  data.path = path;
  std::vector<std::string> images;
  MUSTER_ASSIGN_OR_RETURN(const TextFolder folder, ListTextFolder(path));
  for (const std::string& file : folder.paths) {
    if (absl::StrContains(fs::path(file).filename().string(), "images-idx3")) {
      images.push_back(file);
    }
    std::error_code gone;
    const uint64_t bytes = fs::file_size(file, gone);
    if (!gone) data.examples += bytes;
  }
  if (!images.empty()) {
    // MNIST's test images begin with t10k, those to train on with train.
    return LookAtFile(*std::max_element(images.begin(), images.end()));
  }
  if (data.examples > 0) return data;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is a folder without text in its files; name one with some, or a file"));
}

}  // namespace

absl::StatusOr<FoundData> LookAtData(const std::string& path) {
  const std::string absolute = fs::absolute(path).lexically_normal().string();
  std::error_code error;
  if (fs::is_directory(absolute, error)) return LookAtFolder(absolute);
  if (fs::is_regular_file(absolute, error)) return LookAtFile(absolute);
  if (fs::exists(absolute, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is neither a file nor a folder"));
  }
  return absl::NotFoundError(absl::StrCat("there is no ", path, "; name a file or folder of data"));
}

}  // namespace muster
