#include "client/init/found_data.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
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
#include "client/init/libffm_guess.h"
#include "client/init/name_documents.h"
#include "common/base/status_macros.h"
#include "common/csv/parquet_table.h"
#include "common/documents/document_source.h"
#include "common/documents/parquet_documents.h"
#include "common/files/path_pattern.h"
#include "common/files/text_files.h"
#include "common/parquet/parquet_file.h"
#include "common/text/byte_order_mark.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Bytes of a file's unpacked beginning, enough to see nearly every class.
constexpr size_t kHeadBytes = size_t{16} << 20;
// Digits and clothes, and most else in this format.
constexpr uint32_t kUsualImageClasses = 10;
// Limit of libsvm labels, as in the reader.
constexpr uint32_t kLargestLabel = 1'000'000;

struct Head {
  std::string text;
  bool packed = false;
  // Size of the unpacked file; a guess if a packed file is longer than its head.
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

// Common properties of the lines of libsvm data.
struct Libsvm {
  uint64_t records = 0;
  bool features = false;
  bool zero_based = false;
  double largest_label = 0;
  bool minus_one = false;
  // Labels that are neither -1 nor +1, and such as are no class at all
  // (worker/data/parsing/class_labels.h).
  bool other_labels = false;
  bool refused_labels = false;

  // "label index:value …"; false where a line is none of libsvm's.
  bool Add(absl::string_view line) {
    const std::vector<absl::string_view> words = absl::StrSplit(
        line.substr(0, line.find('#')), absl::ByAnyChar(" \t\v\f\r"), absl::SkipWhitespace());
    if (words.empty()) return true;
    double label = 0;
    if (!absl::SimpleAtod(words[0], &label)) return false;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<absl::string_view, absl::string_view> entry =
          absl::StrSplit(words[i], absl::MaxSplits(':', 1));
      uint64_t index = 0;
      double value = 0;
      if (!absl::SimpleAtoi(entry.first, &index) || !absl::SimpleAtod(entry.second, &value)) {
        return false;
      }
      features = true;
      zero_based = zero_based || index == 0;
    }
    ++records;
    minus_one = minus_one || label == -1;
    other_labels = other_labels || std::abs(label) != 1;
    // NaN is none, too.
    const bool is_class = label >= -1 && label <= kLargestLabel && label == std::floor(label);
    refused_labels = refused_labels || !is_class;
    if (is_class) largest_label = std::max(largest_label, label);
    return true;
  }
};

// Returns nothing if no line has a feature: then the lines are numbers.
std::optional<Libsvm> ReadLibsvm(absl::string_view text) {
  Libsvm libsvm;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!libsvm.Add(line)) return std::nullopt;
  }
  if (!libsvm.features) return std::nullopt;
  return libsvm;
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
                     " has IDX images, but their labels are missing: images named …images-idx3… "
                     "need a file …labels-idx1… in the same folder"));
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

// Returns the ending of a table's name; empty if the name is not a table's.
std::string TableEnding(const std::string& path) {
  for (const absl::string_view ending : {".csv", ".tsv", ".csv.gz", ".tsv.gz"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return path.substr(path.size() - ending.size());
  }
  return "";
}

bool NamesTable(const std::string& path) { return !TableEnding(path).empty(); }

absl::StatusOr<FoundData> LibsvmData(const Libsvm& libsvm, const Head& head, FoundData data) {
  if (libsvm.refused_labels || (libsvm.minus_one && libsvm.other_labels)) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path,
                     " has libsvm data with labels that are not classes; classes are -1 and +1, or "
                     "whole numbers from 0 to ",
                     kLargestLabel, "; number the classes from 0"));
  }
  data.kind = FoundData::Kind::kLibsvm;
  data.zero_based = libsvm.zero_based;
  data.classes = std::max(2u, static_cast<uint32_t>(libsvm.largest_label) + 1);
  data.examples = ScaledUp(libsvm.records, head);
  return data;
}

// Returns why documents cannot be trained on, and what to do.
absl::Status CannotTrain(const DocumentSource& source, const absl::Status& status) {
  if (source.form != DocumentSource::Form::kJsonLines || !absl::IsInvalidArgument(status)) {
    return status;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(status.message()), "; to predict a field instead, make a table: jq -r '[.FIELD, ",
      ".OTHER] | @csv' < FILE > TABLE.csv"));
}

// Looks at the first document as tasks will read it, and returns whether all of it is learned.
absl::StatusOr<Trained> LookAtFirst(const DocumentSource& source, const LookOptions& options) {
  if (source.form == DocumentSource::Form::kTokenFile) {
    if (source.files.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          source.path, " stands for several token files; name one of them, or mix them in a job ",
          "(data.mixture)"));
    }
    MUSTER_ASSIGN_OR_RETURN(const auto file, TokenFile::Open(source.files[0]));
    return file->has_trained_bits() ? Trained::kNo : Trained::kYes;
  }
  if (HasTokens(source.form) && options.tokenizer.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.path, " is ", NameOf(source.form),
                     "; name the tokenizer that made them: ", "--tokenizer FOLDER"));
  }
  const std::string name = options.tokenizer.empty() ? "bytes" : options.tokenizer;
  MUSTER_ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(name));
  const absl::StatusOr<Trained> all =
      ReadFirstDocument(source, options.documents, name, *tokenizer);
  return all.ok() ? all : CannotTrain(source, all.status());
}

absl::StatusOr<FoundData> Documents(const DocumentSource& source, const LookOptions& options) {
  std::error_code error;
  FoundData data;
  data.path = source.path;
  data.files = source.files.size();
  data.examples = source.bytes;
  MUSTER_ASSIGN_OR_RETURN(const Trained all, LookAtFirst(source, options));
  data.sequences = NameDocuments(source, options.tokenizer.empty() ? "bytes" : options.tokenizer,
                                 options.documents, all);
  data.kind = FoundData::Kind::kDocuments;
  if (source.form == DocumentSource::Form::kTokenFile) data.kind = FoundData::Kind::kTokens;
  // Other readers of texts take no pattern.
  if (source.form == DocumentSource::Form::kText && fs::exists(source.path, error)) {
    data.kind = FoundData::Kind::kText;
  }
  return data;
}

// Parquet files are documents if they have the columns of such, and no column is to be predicted;
// otherwise tables.
absl::StatusOr<FoundData> LookAtParquet(const std::string& path, const LookOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const auto file, ParquetFile::Open(path));
  if (options.label.empty() && HasDocuments(*file, options.documents.field)) {
    MUSTER_ASSIGN_OR_RETURN(const DocumentSource source,
                            FindDocuments(path, options.documents.raw));
    return Documents(source, options);
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string text, HeadAsCsv(*file, kHeadBytes));
  std::optional<CsvGuess> table = GuessCsv(text, options.label);
  if (!table.has_value() || !table->header) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is a Parquet file, but neither documents nor a table: documents are in columns ",
        "named text, prompt and completion, messages or conversations (--field names another); a ",
        "table has two or more columns of numbers, booleans or texts, with names that are no ",
        "numbers, and two or more rows"));
  }
  FoundData data;
  data.path = path;
  data.kind = FoundData::Kind::kTable;
  data.examples = static_cast<uint64_t>(file->rows());
  data.table = *std::move(table);
  // Only text has one.
  data.table.separator = ',';
  return data;
}

absl::StatusOr<FoundData> LookAtFile(const std::string& path, const LookOptions& options) {
  FoundData data;
  data.path = path;
  MUSTER_ASSIGN_OR_RETURN(const Head head, ReadHead(path));
  if (IsIdx(head.text, 3)) return Images(head, std::move(data));
  if (IsIdx(head.text, 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has IDX labels; name the file with the images"));
  }
  if (IsParquet(head.text)) return LookAtParquet(path, options);
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource source, FindDocuments(path, options.documents.raw));
  const bool plain = source.form == DocumentSource::Form::kText;
  // Tables are read from gzip, too.
  if (!plain && !(source.form == DocumentSource::Form::kPackedText && head.packed)) {
    return Documents(source, options);
  }
  const absl::string_view text = WholeLines(head);
  if (const std::optional<LibffmGuess> libffm = GuessLibffm(text); libffm.has_value()) {
    data.kind = FoundData::Kind::kLibffm;
    data.one_per_field = libffm->one_per_field;
    data.classes = std::max(2u, static_cast<uint32_t>(libffm->largest_label) + 1);
    data.examples = ScaledUp(libffm->records, head);
    return data;
  }
  const bool named_table = NamesTable(path);
  std::optional<CsvGuess> table = GuessCsv(text, options.label);
  const std::optional<Libsvm> libsvm = ReadLibsvm(text);
  if (libsvm.has_value() && !(named_table && table.has_value())) {
    if (!head.packed) return LibsvmData(*libsvm, head, std::move(data));
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is libsvm data compressed by gzip; unpack it first: gunzip -k ", path));
  }
  // Prose may have as many commas in each line, but hardly a column to predict besides.
  if (table.has_value() &&
      (named_table ||
       (table->records >= 5 && (!table->label.empty() || !table->label_refused.empty())))) {
    data.kind = FoundData::Kind::kTable;
    data.examples = ScaledUp(table->records, head);
    data.table = *std::move(table);
    return data;
  }
  if (named_table) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is named like a table, but is not one: a table has at least two lines, each "
                     "with the same number of fields (two or more), separated by ',', ';', '|' or "
                     "a tab. If the file is text, give it another ending, such as .txt"));
  }
  return Documents(source, options);
}

// A folder of tables is no text, though each of them is.
absl::Status CheckAreNoTables(const std::string& folder, const std::vector<std::string>& paths) {
  if (paths.empty() || !std::all_of(paths.begin(), paths.end(), NamesTable)) {
    return absl::OkStatus();
  }
  const std::string ending = TableEnding(paths[0]);
  const bool all_end_so =
      std::all_of(paths.begin(), paths.end(),
                  [&ending](const std::string& path) { return TableEnding(path) == ending; });
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " is a folder of tables; name them by a pattern: --data '",
                   (fs::path(folder) / "*").string(), all_end_so ? ending : "", "'"));
}

absl::StatusOr<FoundData> LookAtFolder(const std::string& path, const LookOptions& options) {
  std::vector<std::string> images;
  MUSTER_ASSIGN_OR_RETURN(const TextFolder folder, ListTextFolder(path));
  for (const std::string& file : folder.paths) {
    if (absl::StrContains(fs::path(file).filename().string(), "images-idx3")) {
      images.push_back(file);
    }
  }
  // MNIST's test images begin with t10k, those to train on with train.
  if (!images.empty()) return LookAtFile(*std::max_element(images.begin(), images.end()), options);
  MUSTER_RETURN_IF_ERROR(CheckAreNoTables(path, folder.paths));
  MUSTER_ASSIGN_OR_RETURN(const DocumentSource source, FindDocuments(path, options.documents.raw));
  return Documents(source, options);
}

// Looks at the first of the files, and takes the others to be like it.
absl::StatusOr<FoundData> LookAtPattern(const std::string& pattern,
                                        const std::vector<std::string>& files,
                                        const LookOptions& options) {
  std::error_code error;
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    if (!fs::is_regular_file(file, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(pattern, " is a pattern that matches ", file, ", which is not a file"));
    }
    const uint64_t size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  MUSTER_ASSIGN_OR_RETURN(FoundData data, LookAtFile(files[0], options));
  if (data.kind == FoundData::Kind::kImages || data.kind == FoundData::Kind::kLibsvm ||
      data.kind == FoundData::Kind::kLibffm) {
    return absl::InvalidArgumentError(
        absl::StrCat(pattern, " is a pattern, but the first file that it matches, ", files[0],
                     ", is neither a table nor text, and patterns are for these only; name one "
                     "file"));
  }
  if (data.kind != FoundData::Kind::kTable) {
    MUSTER_ASSIGN_OR_RETURN(const DocumentSource source,
                            FindDocuments(pattern, options.documents.raw));
    return Documents(source, options);
  }
  const uint64_t of_first = fs::file_size(files[0], error);
  if (!error && of_first > 0) {
    data.examples =
        static_cast<uint64_t>(static_cast<double>(data.examples) * static_cast<double>(bytes) /
                              static_cast<double>(of_first));
  }
  data.path = pattern;
  data.files = files.size();
  return data;
}

}  // namespace

absl::StatusOr<FoundData> LookAtData(const std::string& path, const LookOptions& given) {
  const std::string absolute = fs::absolute(path).lexically_normal().string();
  std::error_code error;
  LookOptions options = given;
  // A job's paths begin in its own folder.
  if (fs::exists(given.tokenizer, error)) {
    options.tokenizer = fs::absolute(given.tokenizer).lexically_normal().string();
  }
  if (fs::is_directory(absolute, error)) return LookAtFolder(absolute, options);
  if (fs::is_regular_file(absolute, error)) return LookAtFile(absolute, options);
  if (fs::exists(absolute, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is neither a file nor a folder"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfPattern(absolute));
  if (files[0] != absolute) return LookAtPattern(absolute, files, options);
  return absl::NotFoundError(absl::StrCat("there is no ", path, "; name a file or folder of data"));
}

}  // namespace muster
