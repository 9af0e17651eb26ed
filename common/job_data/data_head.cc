#include "common/job_data/data_head.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/documents/document_source.h"
#include "common/documents/source_options.h"
#include "common/files/check_is_text.h"
#include "common/files/open_regular_file.h"
#include "common/files/text_files.h"
#include "common/job/sequence_sources.h"
#include "common/job_data/csv_head.h"
#include "common/job_data/job_tokenizer.h"
#include "common/job_data/libffm_head.h"
#include "common/job_data/source_arguments.h"
#include "common/packing/packing_figures.h"
#include "common/packing/whole_documents.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Bytes read of a file of lines, to know how long they are.
constexpr size_t kLibsvmHeadBytes = 64 << 10;
// Bytes read of a text, to know that it is one.
constexpr size_t kTextHeadBytes = 64 << 10;
// Bytes read of a text, to know how often its strings come; fewer if many lengths are counted.
constexpr size_t kCountedBytes = 1 << 20;
// Documents looked at of a token file, to know how long they are.
constexpr size_t kCountedDocuments = 1'000'000;
// Larger files are mapped (common/files/file_content.h): their pages are the system's.
constexpr uint64_t kMappedFrom = uint64_t{64} << 20;

// Returns a file, or the files of a folder that are read.
std::vector<std::string> FilesAt(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {path};
  absl::StatusOr<TextFolder> folder = ListTextFolder(path);
  return folder.ok() ? std::move(folder->paths) : std::vector<std::string>();
}

// Returns the bytes of a file, or of the files in a folder, without files of `below` bytes or more.
// 0: there is none.
uint64_t BytesAt(const std::string& path, uint64_t below = std::numeric_limits<uint64_t>::max()) {
  uint64_t sum = 0;
  for (const std::string& file : FilesAt(path)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const auto bytes = std::filesystem::file_size(file, error);
    if (!error && bytes < below) sum += bytes;
  }
  return sum;
}

void NotHere(const std::string& path, DataSize& size) {
  size.assumptions.push_back(absl::StrCat(path, " cannot be read on this machine"));
}

// Returns the figures of the source's documents in windows; empty: where they end is not known.
PackingFigures FiguresOf(const v1::SequenceData& source, int64_t context, DataSize& size) {
  PackingFigures none;
  if (!IsTokenFileAt(source.path())) return none;
  const auto file = TokenFile::Open(source.path());
  if (!file.ok() || (*file)->document_ends().empty()) return none;
  absl::Span<const uint64_t> ends = (*file)->document_ends();
  if (ends.size() > kCountedDocuments) {
    ends = ends.subspan(0, kCountedDocuments);
    size.assumptions.push_back(absl::StrCat("all documents of ", source.path(), " are like its ",
                                            "first ", kCountedDocuments));
  }
  if (source.packing() != v1::SequenceData::WHOLE_DOCUMENTS) return FiguresOfStream(ends, context);
  const auto windows = WholeDocuments::Create(ends, context);
  return windows.ok() ? (*windows)->figures() : none;
}

bool KeepsDocumentsApart(const v1::SequenceData& source) {
  return source.packing() == v1::SequenceData::WITHIN_DOCUMENTS ||
         source.packing() == v1::SequenceData::WHOLE_DOCUMENTS;
}

// Finds out how long documents are where attention stays within them, by the sources' first
// weights.
void ReadDocuments(const v1::JobSpec& spec, DataSize& size) {
  const auto context = static_cast<int64_t>(spec.model().transformer().context());
  const std::vector<const v1::SequenceData*> sources = SequenceSources(spec.data());
  if (context < 1 || !std::any_of(sources.begin(), sources.end(), [](const auto* source) {
        return KeepsDocumentsApart(*source);
      })) {
    return;
  }
  double weights = 0, tokens = 0, padding = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    const double weight =
        spec.data().has_mixture() ? spec.data().mixture().sources(static_cast<int>(i)).weight() : 1;
    weights += weight;
    if (!KeepsDocumentsApart(*sources[i])) {
      tokens += weight * static_cast<double>(context);
      continue;
    }
    const PackingFigures figures = FiguresOf(*sources[i], context, size);
    if (figures.windows == 0) {
      size.assumptions.push_back(
          absl::StrCat("attention looks at whole sequences, since the lengths of the documents of ",
                       sources[i]->path(), " are known only where it is a token file"));
      return;
    }
    tokens += weight * figures.MeanDocument(context);
    padding += weight * figures.PaddingShare(context);
  }
  size.document_tokens = tokens / weights;
  size.padding = padding / weights;
}

// Returns the bytes that a task keeps at most to know where documents of a token file are.
uint64_t IndexBytes(const v1::SequenceData& source, uint64_t context) {
  if (source.packing() != v1::SequenceData::WHOLE_DOCUMENTS) return 0;
  const auto file = TokenFile::Open(source.path());
  if (!file.ok()) return 0;
  return WholeDocuments::BytesAtMost((*file)->document_ends().size(), (*file)->tokens(), context);
}

void ReadSequences(const v1::JobSpec& spec, DataLook look, DataSize& size) {
  const std::vector<const v1::SequenceData*> sources = SequenceSources(spec.data());
  if (sources.empty()) return;
  const uint32_t given = spec.model().transformer().vocabulary();
  if (look == DataLook::kCheap && given > 0) {
    size.vocabulary = given;
  } else {
    const absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = JobTokenizer(spec.data());
    if (!tokenizer.ok()) return NotHere(sources[0]->path(), size);
    size.vocabulary = (*tokenizer)->vocabulary();
  }
  size.vocabulary_assumption.clear();
  for (const v1::SequenceData* source : sources) {
    const uint64_t bytes = BytesAt(source->path());
    if (NeedsTokenFile(*source)) {
      // Its size is known when it is made; from this size on it is mapped.
      size.bytes += kMappedFrom;
      continue;
    }
    if (bytes == 0) return NotHere(source->path(), size);
    const bool is_token_file = IsTokenFileAt(source->path());
    if (bytes < kMappedFrom || !is_token_file) size.bytes += bytes;
    if (is_token_file) size.bytes += IndexBytes(*source, spec.model().transformer().context());
  }
  if (look == DataLook::kThorough) ReadDocuments(spec, size);
}

// Returns empty if the file cannot be read.
std::string BeginningOfFile(const std::string& path, size_t bytes) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return "";
  std::string head(std::min<uint64_t>(bytes, file->size), '\0');
  size_t filled = 0;
  while (filled < head.size()) {
    const ssize_t got = pread(file->descriptor, head.data() + filled, head.size() - filled, filled);
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  close(file->descriptor);
  head.resize(filled);
  return head;
}

// Returns the beginning of a file, or of the files in a folder by their names.
std::string Beginning(const std::string& path, size_t bytes) {
  std::string head;
  for (const std::string& each : FilesAt(path)) {
    head += BeginningOfFile(each, bytes - head.size());
    if (head.size() == bytes) break;
  }
  return head;
}

// Returns DataSize::repeats of strings of up to `longest` bytes.
std::vector<std::map<uint64_t, uint64_t>> CountRepeats(absl::string_view text, size_t longest) {
  std::vector<std::map<uint64_t, uint64_t>> repeats;
  for (size_t length = 1; length <= std::min(longest, text.size()); ++length) {
    absl::flat_hash_map<absl::string_view, uint64_t> times;
    for (size_t i = 0; i + length <= text.size(); ++i) ++times[text.substr(i, length)];
    std::map<uint64_t, uint64_t>& strings = repeats.emplace_back();
    for (const auto& [string, number] : times) ++strings[number];
  }
  return repeats;
}

void ReadText(const std::string& path, uint32_t orders, DataLook look, DataSize& size) {
  size.bytes = BytesAt(path);
  size.examples = size.bytes;
  if (size.bytes == 0) return NotHere(path, size);
  if (look == DataLook::kCheap) {
    size.repeats.assign(orders, {{1, size.bytes}});
    size.bytes = BytesAt(path, kMappedFrom);
    return;
  }
  const size_t counted = orders == 0 ? 0 : std::min(kCountedBytes, 4 * kCountedBytes / orders);
  if (size.bytes > counted && orders > 0) {
    size.assumptions.push_back(
        absl::StrCat("all text repeats itself as its first ", counted >> 10, " KiB do"));
  }
  size.repeats = CountRepeats(Beginning(path, counted), orders);
  size.bytes = BytesAt(path, kMappedFrom);
}

// Reads an IDX file's header, big-endian numbers, packed or not.
void ReadImages(const std::string& path, DataSize& size) {
  const absl::StatusOr<OpenedFile> opened = OpenRegularFile(path);
  if (!opened.ok()) return NotHere(path, size);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(opened->descriptor, "rb"), gzclose);
  std::array<unsigned char, 16> head = {};
  if (file == nullptr || gzread(file.get(), head.data(), head.size()) != head.size() ||
      head[3] != 3) {
    return NotHere(path, size);
  }
  const auto number = [&head](size_t at) {
    return uint64_t{head[at]} << 24 | head[at + 1] << 16 | head[at + 2] << 8 | head[at + 3];
  };
  size.assumptions.clear();
  size.examples = number(4);
  size.dense_features = number(8) * number(12);
  size.bytes = size.examples * (size.dense_features + 1);
}

// Means over a file's first whole lines.
struct LibsvmLines {
  double bytes = 0;
  double features = 0;
};

absl::StatusOr<LibsvmLines> FirstLibsvmLines(const std::string& path) {
  std::string head = BeginningOfFile(path, kLibsvmHeadBytes);
  const size_t end = head.rfind('\n');
  if (end == std::string::npos) return absl::NotFoundError(path);
  head.resize(end + 1);
  const double lines = static_cast<double>(std::count(head.begin(), head.end(), '\n'));
  const double colons = static_cast<double>(std::count(head.begin(), head.end(), ':'));
  return LibsvmLines{static_cast<double>(head.size()) / lines, colons / lines};
}

void ReadLibsvm(const std::string& path, DataSize& size) {
  const absl::StatusOr<LibsvmLines> lines = FirstLibsvmLines(path);
  if (!lines.ok()) return NotHere(path, size);
  size.assumptions = {"all lines are like the first 64 KiB of them"};
  const double examples = static_cast<double>(BytesAt(path)) / lines->bytes;
  size.examples = static_cast<uint64_t>(examples);
  size.keys = static_cast<uint64_t>(lines->features + 1);
  // Key and value of each feature, offset and label of each example.
  size.bytes = static_cast<uint64_t>(examples * (12 * lines->features + 12));
}

void ReadLibffm(const std::string& path, DataSize& size) {
  const LibffmHead head = ReadLibffmHead(path);
  if (head.lines == 0) return NotHere(path, size);
  size.assumptions = {"all lines are like the first 64 KiB of them"};
  const double share = head.bytes_in_file / static_cast<double>(BytesAt(path));
  const double examples = head.lines / std::min(share, 1.0);
  size.examples = static_cast<uint64_t>(examples);
  size.fields = head.fields;
  size.keys = static_cast<uint64_t>(std::max(head.entries, static_cast<double>(head.fields)) + 1);
  size.rows = std::min(size.fields * kUnknownRows, size.examples * size.keys);
  // Key and value of each feature, offset and label of each example.
  size.bytes = static_cast<uint64_t>(examples * (12 * static_cast<double>(size.keys) + 12));
}

void ReadCsv(const v1::CsvData& csv, DataSize& size) {
  const CsvHead head = ReadCsvHead(csv);
  if (head.examples == 0) return NotHere(csv.path(), size);
  if (head.is_estimate) size.assumptions.push_back("all lines are like the first 64 KiB of them");
  size.examples = head.examples;
  size.bytes = head.kept_bytes;
  size.rows = std::min(size.rows, size.examples * size.fields);
}

// Files that cannot be read here are left to the tasks.
absl::Status CheckTextHead(const std::string& path) {
  for (const std::string& file : FilesAt(path)) {
    MUSTER_RETURN_IF_ERROR(CheckIsText(file, BeginningOfFile(file, kTextHeadBytes)));
  }
  return absl::OkStatus();
}

// Checks the first document of which tasks make a token file. Files that cannot be read here are
// left to the tasks.
absl::Status CheckDocumentsHead(const v1::SequenceData& sequences) {
  const SourceArguments arguments = SourceArgumentsOf(sequences);
  const absl::StatusOr<DocumentSource> source = FindDocuments(sequences.path(), arguments.raw);
  if (absl::IsInvalidArgument(source.status())) return source.status();
  if (!source.ok()) return absl::OkStatus();
  if (sequences.tokenizer().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.sequences.path is '", sequences.path(), "', ", NameOf(source->form),
                     ", of which workers make tokens before they train; name the tokenizer in "
                     "data.sequences.tokenizer (\"bytes\": each byte is a token)"));
  }
  const auto tokenizer = OpenTokenizer(sequences.tokenizer());
  if (!tokenizer.ok() || source->form == DocumentSource::Form::kTokenFile) {
    return absl::OkStatus();
  }
  return ReadFirstDocument(*source, arguments, sequences.tokenizer(), **tokenizer).status();
}

// Validation data are held beside the training data.
void AddValidation(const v1::JobSpec& spec, DataLook look, DataSize& size) {
  v1::JobSpec evaluation = spec;
  evaluation.mutable_data()->Swap(evaluation.mutable_validation());
  evaluation.clear_validation();
  const DataSize validation = ReadDataHead(evaluation, look);
  size.bytes += validation.bytes;
  size.validation_examples = validation.examples;
}

}  // namespace

DataSize ReadDataHead(const v1::JobSpec& spec, DataLook look) {
  const v1::DataSpec& data = spec.data();
  DataSize size = SizeOfData(data);
  switch (data.reader_case()) {
    case v1::DataSpec::kSequences:
    case v1::DataSpec::kMixture:
      ReadSequences(spec, look, size);
      break;
    case v1::DataSpec::kText:
      ReadText(data.text().path(), spec.model().ngram().orders(), look, size);
      break;
    case v1::DataSpec::kIdx:
      ReadImages(data.idx().images(), size);
      break;
    case v1::DataSpec::kLibsvm:
      ReadLibsvm(data.libsvm().path(), size);
      break;
    case v1::DataSpec::kLibffm:
      ReadLibffm(data.libffm().path(), size);
      break;
    case v1::DataSpec::kCsv:
      ReadCsv(data.csv(), size);
      break;
    default:
      break;
  }
  if (spec.has_validation()) AddValidation(spec, look, size);
  return size;
}

absl::Status CheckDataHead(const v1::JobSpec& spec) {
  for (const v1::DataSpec* data : {&spec.data(), &spec.validation()}) {
    if (data->has_csv()) MUSTER_RETURN_IF_ERROR(CheckCsvHead(data->csv()));
    if (data->has_text()) MUSTER_RETURN_IF_ERROR(CheckTextHead(data->text().path()));
    for (const v1::SequenceData* source : SequenceSources(*data)) {
      if (IsTokenFileAt(source->path())) continue;
      MUSTER_RETURN_IF_ERROR(NeedsTokenFile(*source) ? CheckDocumentsHead(*source)
                                                     : CheckTextHead(source->path()));
    }
  }
  return absl::OkStatus();
}

void FillVocabulary(v1::JobSpec& spec) {
  if (!spec.model().has_transformer() || spec.model().transformer().vocabulary() != 0) return;
  const absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = JobTokenizer(spec.data());
  if (!tokenizer.ok()) return;
  const int64_t vocabulary = (*tokenizer)->vocabulary();
  spec.mutable_model()->mutable_transformer()->set_vocabulary(static_cast<uint32_t>(vocabulary));
}

}  // namespace muster
