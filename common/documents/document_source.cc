#include "common/documents/document_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compression/unpacked_file.h"
#include "common/documents/parquet_documents.h"
#include "common/documents/windowed_file.h"
#include "common/files/check_is_text.h"
#include "common/files/file_error.h"
#include "common/files/path_pattern.h"
#include "common/files/text_files.h"
#include "common/parquet/parquet_file.h"
#include "common/text/byte_order_mark.h"
#include "common/text/data_error.h"
#include "common/tokenizer/files/token_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Form = DocumentSource::Form;

// Unpacked bytes by which a file is known.
constexpr size_t kHeadBytes = size_t{64} << 10;
// Bytes of a compressed text that are given at once.
constexpr size_t kUnpackedPartBytes = size_t{1} << 20;

// Returns the path with another ending, such as ".idx".
std::string WithEnding(const std::string& path, absl::string_view ending) {
  return fs::path(path).replace_extension(std::string(ending)).string();
}

// Returns the first bytes of a file, unpacked if `packed` says that it is compressed.
absl::StatusOr<std::string> HeadOf(const std::string& path, bool& packed) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  packed = file->packed();
  std::string head(kHeadBytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(head)));
  head.resize(got);
  return head;
}

// Returns whether a text begins like JSON that goes over several lines.
bool IsOtherJson(absl::string_view head) {
  head = absl::StripLeadingAsciiWhitespace(SkipByteOrderMark(head));
  if (head.empty() || (head.front() != '{' && head.front() != '[')) return false;
  const absl::string_view inside = absl::StripLeadingAsciiWhitespace(head.substr(1));
  return absl::StartsWith(inside, "\"") || absl::StartsWith(inside, "{") ||
         absl::StartsWith(inside, "[");
}

bool IsNamedAsJson(const std::string& path) {
  for (const char* ending : {".json", ".jsonl", ".ndjson"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return true;
  }
  return false;
}

// Returns the number of the first line that IsJsonLines refuses.
int64_t FirstLineWithoutJson(absl::string_view head) {
  int64_t number = 0;
  while (!head.empty()) {
    const size_t end = std::min(head.find('\n'), head.size());
    ++number;
    const absl::string_view line = head.substr(0, end);
    if (!absl::StripAsciiWhitespace(line).empty() && !IsJsonLines(absl::StrCat(line, "\n"))) break;
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  return number;
}

bool IsMegatronIndexAt(const std::string& path) {
  bool packed = false;
  const absl::StatusOr<std::string> head = HeadOf(path, packed);
  return head.ok() && !packed && IsMegatronIndex(*head);
}

// A file, known by its content.
struct Known {
  Form form = Form::kText;
  // The file, or the index beside it.
  std::string path;
};

// Returns nothing for an empty file.
absl::StatusOr<std::optional<Known>> Recognise(const std::string& path) {
  bool packed = false;
  absl::StatusOr<std::string> unpacked = HeadOf(path, packed);
  // It is the file that is wrong, and no disk that failed.
  if (absl::IsDataLoss(unpacked.status())) {
    return absl::InvalidArgumentError(std::string(unpacked.status().message()));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string head, std::move(unpacked));
  if (head.empty()) return std::nullopt;
  if (IsJsonLines(head)) return Known{Form::kJsonLines, path};
  if (IsOtherJson(head) || IsNamedAsJson(path)) {
    return LineError(
        path, FirstLineWithoutJson(head),
        "the file is JSON, but this line is no whole object with fields and no list of "
        "messages; it was cut off, or values go over several lines: make a line of "
        "each by jq -c . < FILE > FILE.jsonl, of those in a list by jq -c '.[]'");
  }
  if (packed) {
    const absl::Status is_text = CheckIsText(path, head);
    if (is_text.ok()) return Known{Form::kPackedText, path};
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(is_text.message()), " (looked at unpacked: the file is compressed; ",
        "of compressed files only texts and JSON lines are read, so unpack others "
        "first, with gunzip or unzstd)"));
  }
  if (IsParquet(head)) return Known{Form::kParquet, path};
  if (IsTokenFile(head)) return Known{Form::kTokenFile, path};
  if (IsLlmC(head)) return Known{Form::kLlmC, path};
  if (IsNumpy(head)) return Known{Form::kNumpy, path};
  if (IsMegatronIndex(head)) return Known{Form::kMegatron, path};
  const std::string index = WithEnding(path, ".idx");
  if (absl::EndsWith(path, ".bin") && IsMegatronIndexAt(index)) {
    return Known{Form::kMegatron, index};
  }
  if (const absl::Status is_text = CheckIsText(path, head); !is_text.ok()) {
    if (!absl::EndsWith(path, ".bin")) return is_text;
    return absl::Status(
        is_text.code(),
        absl::StrCat(std::string(is_text.message()),
                     ". If it has the numbers of tokens and nothing else, as nanoGPT writes them, "
                     "say --raw u16"));
  }
  return Known{Form::kText, path};
}

// Returns the files of a path, and whether it is a folder.
absl::StatusOr<std::vector<std::string>> FilesAt(const std::string& path, bool& is_folder) {
  std::error_code error;
  is_folder = fs::is_directory(path, error);
  if (!is_folder) return FilesOfPattern(path);
  MUSTER_ASSIGN_OR_RETURN(TextFolder folder, ListTextFolder(path));
  return std::move(folder.paths);
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

absl::Status TakeText(const std::string& path, absl::string_view text, uint64_t number,
                      TakeDocument take) {
  const TextPart part{text, Trained::kYes};
  Document document;
  document.path = path;
  document.parts = {&part, 1};
  document.next.files = number;
  return take(document);
}

absl::Status TakeTexts(const DocumentSource& source, const DocumentOptions& options,
                       TakeDocument take) {
  uint64_t number = 0;
  const auto take_file = [&](const std::string& path, FileContent file) {
    const bool skipped = number++ < options.begin.files;
    if (!skipped) MUSTER_RETURN_IF_ERROR(TakeText(path, file.bytes(), number, take));
    if (options.json.progress) options.json.progress(file.bytes().size());
    return absl::OkStatus();
  };
  std::error_code error;
  if (fs::is_directory(source.path, error)) return ForEachTextFile(source.path, take_file);
  for (const std::string& path : source.files) {
    MUSTER_RETURN_IF_ERROR(ForEachTextFile(path, take_file));
  }
  return absl::OkStatus();
}

// Unpacks a text as it is taken, so that memory does not grow with it.
absl::Status TakePackedText(const std::string& path, uint64_t number,
                            const DocumentOptions& options, TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  std::string part(kUnpackedPartBytes, '\0'), next(kUnpackedPartBytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(size_t bytes, file->Read(absl::MakeSpan(part)));
  for (uint64_t told = 0; bytes > 0;) {
    MUSTER_ASSIGN_OR_RETURN(const size_t more, file->Read(absl::MakeSpan(next)));
    const TextPart text{absl::string_view(part).substr(0, bytes), Trained::kYes};
    Document document;
    document.path = path;
    document.parts = {&text, 1};
    document.continues = more > 0;
    document.next.files = number;
    MUSTER_RETURN_IF_ERROR(take(document));
    if (options.json.progress) options.json.progress(file->bytes_read() - told);
    told = file->bytes_read();
    part.swap(next);
    bytes = more;
  }
  return absl::OkStatus();
}

absl::Status TakeRow(const std::string& path, const DocumentSource& source, const TokenRules& rules,
                     TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<WindowedFile> file, WindowedFile::Open(path));
  absl::StatusOr<TokenRow> row = source.form == Form::kLlmC    ? LlmCRow(*file)
                                 : source.form == Form::kNumpy ? NumpyRow(*file)
                                                               : RawRow(*file, source.raw);
  if (!row.ok()) return row.status();
  return ForEachInRow(*file, *row, rules, take);
}

}  // namespace

absl::string_view NameOf(Form form) {
  switch (form) {
    case Form::kText:
      return "text";
    case Form::kPackedText:
      return "compressed text";
    case Form::kJsonLines:
      return "JSON lines";
    case Form::kParquet:
      return "Parquet";
    case Form::kLlmC:
      return "a shard of tokens of llm.c";
    case Form::kNumpy:
      return "a NumPy array of tokens";
    case Form::kMegatron:
      return "indexed tokens of Megatron";
    case Form::kRaw:
      return "raw tokens";
    default:
      return "a token file";
  }
}

bool HasFields(Form form) { return form == Form::kJsonLines || form == Form::kParquet; }

bool HasTokens(Form form) {
  return form != Form::kText && form != Form::kPackedText && !HasFields(form);
}

absl::StatusOr<DocumentSource> FindDocuments(const std::string& path, absl::string_view raw) {
  DocumentSource source;
  source.path = path;
  const std::optional<TokenType> type = TokenTypeNamed(raw);
  if (!raw.empty() && !type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokens have no type ", Quote(raw), "; expected u8, u16, u32, u64, i8, i16, i32 or i64"));
  }
  source.raw = type.value_or(TokenType());
  bool is_folder = false;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesAt(path, is_folder));
  std::string first;
  for (const std::string& file : files) {
    std::optional<Known> known;
    if (type.has_value()) {
      known = Known{Form::kRaw, file};
    } else {
      MUSTER_ASSIGN_OR_RETURN(known, Recognise(file));
    }
    if (!known.has_value()) continue;
    if (source.files.empty()) {
      source.form = known->form;
      first = file;
    } else if (known->form != source.form) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has files of different forms: ", first, " is ", NameOf(source.form), ", ", file,
          " is ", NameOf(known->form), "; name those of one form, by a pattern say"));
    }
    // The two files of Megatron's data stand for the same.
    if (std::find(source.files.begin(), source.files.end(), known->path) == source.files.end()) {
      source.files.push_back(known->path);
    }
  }
  if (source.files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, is_folder ? " is a folder without a file that has content; hidden files "
                                       "and subfolders are left out"
                                     : " is empty; there is nothing to read"));
  }
  for (const std::string& file : source.files) {
    source.bytes += SizeOf(file);
    if (source.form == Form::kMegatron) source.bytes += SizeOf(WithEnding(file, ".bin"));
  }
  return source;
}

absl::Status ForEachDocument(const DocumentSource& source, const DocumentOptions& options,
                             TakeDocument take) {
  if (source.form == Form::kText) return TakeTexts(source, options, take);
  JsonDocumentOptions json = options.json;
  for (size_t i = options.begin.files; i < source.files.size(); ++i) {
    const std::string& path = source.files[i];
    const uint64_t skip = i == options.begin.files ? options.begin.inside : 0;
    uint64_t inside = 0;
    const auto take_next = [&](Document document) {
      const bool is_line = document.line > 0;
      inside = is_line ? static_cast<uint64_t>(document.line) : inside + 1;
      document.next = {i, inside};
      return inside <= skip ? absl::OkStatus() : take(document);
    };
    switch (source.form) {
      case Form::kJsonLines:
        json.skip = skip;
        MUSTER_RETURN_IF_ERROR(ForEachJsonLine(path, json, take_next));
        break;
      case Form::kParquet:
        json.skip = skip;
        MUSTER_RETURN_IF_ERROR(ForEachParquetRow(path, json, take_next));
        break;
      case Form::kPackedText:
        MUSTER_RETURN_IF_ERROR(TakePackedText(path, i + 1, options, take));
        break;
      case Form::kMegatron:
        MUSTER_RETURN_IF_ERROR(
            ForEachInMegatron(path, WithEnding(path, ".bin"), options.tokens, take_next));
        break;
      default:
        MUSTER_RETURN_IF_ERROR(TakeRow(path, source, options.tokens, take_next));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FilesOf(const DocumentSource& source) {
  std::error_code error;
  std::string text(NameOf(source.form));
  if (source.form == Form::kRaw) absl::StrAppend(&text, " ", NameOf(source.raw));
  // Equal texts of a folder count once.
  if (source.form == Form::kText && fs::is_directory(source.path, error)) text += " in a folder";
  text += '\n';
  const auto add = [&text](const std::string& path) -> absl::Status {
    struct stat file;
    if (::stat(path.c_str(), &file) != 0) return FileError("inspect", path, errno);
    const auto append = [&text](const struct timespec& time) {
      absl::StrAppend(&text, " ", time.tv_sec, ".", time.tv_nsec);
    };
    absl::StrAppend(&text, path, " ", file.st_size);
    append(file.st_mtim);
    append(file.st_ctim);
    text += '\n';
    return absl::OkStatus();
  };
  for (const std::string& path : source.files) {
    MUSTER_RETURN_IF_ERROR(add(path));
    if (source.form == Form::kMegatron) MUSTER_RETURN_IF_ERROR(add(WithEnding(path, ".bin")));
  }
  return text;
}

}  // namespace muster
