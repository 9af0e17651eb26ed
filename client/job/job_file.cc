#include "client/job/job_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <istream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/job/initial_weights.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/job/sequence_sources.h"
#include "common/job_text/complete_assignment.h"
#include "common/job_text/fill_message.h"
#include "common/job_text/parse_json_text.h"
#include "common/job_text/parse_textproto.h"
#include "common/job_text/parse_yaml.h"
#include "common/model_files/transformer_config.h"
#include "common/text/byte_order_mark.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Far more than any job takes.
constexpr size_t kMostJobBytes = size_t{4} << 20;

enum class Notation { kTextproto, kJson, kYaml };

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Returns true if a name after `before` begins a group: it stands at the beginning of a line or
// after "{", "}", ";" or ",", and so is not part of a value, as in `path: data/part{1,2}.csv`.
bool BeginsGroup(absl::string_view before) {
  before = absl::StripTrailingAsciiWhitespace(before);
  while (!before.empty() && IsNameCharacter(before.back())) before.remove_suffix(1);
  const absl::string_view line = before.substr(before.rfind('\n') + 1);
  if (absl::StripAsciiWhitespace(line).empty()) return true;
  const char last = absl::StripTrailingAsciiWhitespace(line).back();
  const bool apart = line.back() == ' ' || line.back() == '\t';
  return absl::StrContains("{};,", last) || (apart && last != ':' && last != '-');
}

// Returns true if a `{` comes right after a name, outside of quotes and comments, which never
// happens in YAML or JSON.
bool HasGroupOfTextproto(absl::string_view text) {
  // True if the last character other than a blank ended a name.
  bool after_name = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote || c == '\n') quote = 0;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
      continue;
    }
    if (c == '{' && after_name && BeginsGroup(text.substr(0, i))) return true;
    if (c == '"' || c == '\'') quote = c;
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) {
      after_name = IsNameCharacter(c);
    }
  }
  return false;
}

Notation NotationOf(absl::string_view text, absl::string_view origin) {
  const std::pair<absl::string_view, Notation> endings[] = {{".yaml", Notation::kYaml},
                                                            {".yml", Notation::kYaml},
                                                            {".json", Notation::kJson},
                                                            {".textproto", Notation::kTextproto},
                                                            {".pbtxt", Notation::kTextproto}};
  for (const auto& [ending, notation] : endings) {
    if (absl::EndsWithIgnoreCase(origin, ending)) return notation;
  }
  if (absl::StripLeadingAsciiWhitespace(text)[0] == '{') return Notation::kJson;
  return HasGroupOfTextproto(text) ? Notation::kTextproto : Notation::kYaml;
}

absl::StatusOr<TextNode> ParseText(const std::string& text, const std::string& origin) {
  switch (NotationOf(text, origin)) {
    case Notation::kJson:
      return ParseJsonText(text, origin);
    case Notation::kYaml:
      return ParseYaml(text, origin);
    case Notation::kTextproto:
      break;
  }
  return ParseTextproto(text, origin);
}

// The fields of a data specification that hold paths.
std::vector<std::string*> DataPaths(v1::DataSpec& data) {
  switch (data.reader_case()) {
    case v1::DataSpec::kText:
      return {data.mutable_text()->mutable_path()};
    case v1::DataSpec::kIdx:
      return {data.mutable_idx()->mutable_images(), data.mutable_idx()->mutable_labels()};
    case v1::DataSpec::kLibsvm:
      return {data.mutable_libsvm()->mutable_path()};
    case v1::DataSpec::kLibffm:
      return {data.mutable_libffm()->mutable_path()};
    case v1::DataSpec::kCsv:
      return {data.mutable_csv()->mutable_path()};
    default:
      break;
  }
  std::vector<std::string*> paths;
  for (v1::SequenceData* source : MutableSequenceSources(data)) {
    paths.push_back(source->mutable_path());
  }
  return paths;
}

// Returns true if a tokenizer's name is the path of a file or folder.
bool IsPath(const std::string& tokenizer) { return !tokenizer.empty() && tokenizer != "bytes"; }

// Refuses a token file of another tokenizer than this one; what cannot be read here is left to
// those who train.
absl::Status CheckTokens(const std::string& tokenizer, const std::string& token_file) {
  const auto named = OpenTokenizer(tokenizer);
  const auto in_file = OpenTokenizer(token_file);
  if (!named.ok() || !in_file.ok() || (*named)->fingerprint() == (*in_file)->fingerprint()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the job names the tokenizer of ", tokenizer, ", but ", token_file,
      " was made with another one; name the text, or a token file that `muster data tokenize` made "
      "with the job's tokenizer. To change the job's tokenizer, name it in data.sequences"));
}

// A token file has its own tokenizer. Text in its place is encoded by the same one, and a token
// file in place of text names none.
absl::Status KeepTokenizer(const std::string& new_path, v1::SequenceData& data) {
  const std::string& tokenizer =
      data.tokenizer().empty() && IsTokenFileAt(data.path()) ? data.path() : data.tokenizer();
  if (tokenizer.empty()) return absl::OkStatus();
  if (IsTokenFileAt(new_path)) {
    MUSTER_RETURN_IF_ERROR(CheckTokens(tokenizer, new_path));
    data.clear_tokenizer();
    data.clear_documents();
    return absl::OkStatus();
  }
  data.set_tokenizer(std::string(tokenizer));
  return absl::OkStatus();
}

void MakeAbsolute(const fs::path& folder, std::string& path) {
  path = (folder / path).lexically_normal().string();
}

// Relative paths count from `folder`, absolute ones stay.
void MakeDataPathsAbsolute(const fs::path& folder, v1::DataSpec& data) {
  for (std::string* path : DataPaths(data)) {
    if (!path->empty()) MakeAbsolute(folder, *path);
  }
  for (v1::SequenceData* source : MutableSequenceSources(data)) {
    if (IsPath(source->tokenizer())) MakeAbsolute(folder, *source->mutable_tokenizer());
    if (!source->documents().model().empty()) {
      MakeAbsolute(folder, *source->mutable_documents()->mutable_model());
    }
  }
}

void MakePathsAbsolute(const fs::path& folder, v1::JobSpec& spec) {
  if (spec.has_data()) MakeDataPathsAbsolute(folder, *spec.mutable_data());
  if (spec.has_validation()) MakeDataPathsAbsolute(folder, *spec.mutable_validation());
  if (spec.model().has_transformer() && !spec.model().transformer().from().empty()) {
    MakeAbsolute(folder, *spec.mutable_model()->mutable_transformer()->mutable_from());
  }
  if (!spec.model().program().working_folder().empty()) {
    MakeAbsolute(folder, *spec.mutable_model()->mutable_program()->mutable_working_folder());
  }
  if (IsWeightsFolder(spec.initial_weights())) {
    MakeAbsolute(folder, *spec.mutable_initial_weights());
  }
}

absl::StatusOr<std::string> ReadText(std::istream& stream, const std::string& origin) {
  std::string text(kMostJobBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad()) {
    return absl::UnavailableError(
        absl::StrCat("reading ", origin, " failed before the end of the file"));
  }
  if (text.size() <= kMostJobBytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(origin, " has more than ", kMostJobBytes >> 20,
                   " MiB, far more than a job needs; is it the right file?"));
}

}  // namespace

absl::Status ParseJob(const std::string& text, const std::string& origin, v1::JobSpec& spec) {
  if (LooksLikeUtf16(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, " is UTF-16, as some Windows editors and shells save text; save it as UTF-8"));
  }
  const std::string after_mark(SkipByteOrderMark(text));
  if (absl::StripLeadingAsciiWhitespace(after_mark).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, " is empty; `muster help submit` shows a job"));
  }
  spec.Clear();
  MUSTER_ASSIGN_OR_RETURN(const TextNode root, ParseText(after_mark, origin));
  return FillMessage(root, origin, spec);
}

absl::Status ReadJobFile(const std::string& path, v1::JobSpec& spec) {
  if (path == kStandardInput) {
    const std::string origin = "standard input";
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(std::cin, origin));
    MUSTER_RETURN_IF_ERROR(ParseJob(text, origin, spec));
    MakePathsAbsolute(fs::current_path(), spec);
    return absl::OkStatus();
  }
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder; name a job file"));
  }
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the job file ", path, ": ", std::strerror(errno)));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadText(file, path));
  MUSTER_RETURN_IF_ERROR(ParseJob(text, path, spec));
  MakePathsAbsolute(fs::absolute(path).parent_path(), spec);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SetJobField(const std::string& assignment, v1::JobSpec& spec) {
  const std::string origin = absl::StrCat("--set ", assignment);
  MUSTER_ASSIGN_OR_RETURN(const std::string whole, CompleteAssignment(assignment, origin, spec));
  MUSTER_RETURN_IF_ERROR(AssignField(whole, origin, spec));
  // The paths that the file names are absolute already.
  MakePathsAbsolute(fs::current_path(), spec);
  return whole;
}

void FillPacking(v1::JobSpec& spec) {
  const auto fill = [](v1::DataSpec& data) {
    for (v1::SequenceData* sequences : MutableSequenceSources(data)) {
      if (sequences->packing() != v1::SequenceData::PACKING_UNSPECIFIED) continue;
      sequences->set_packing(v1::SequenceData::WITHIN_DOCUMENTS);
    }
  };
  if (spec.has_data()) fill(*spec.mutable_data());
  if (spec.has_validation()) fill(*spec.mutable_validation());
}

std::vector<std::string> MissingData(const v1::JobSpec& spec) {
  std::vector<std::string> missing;
  v1::JobSpec copy = spec;
  for (v1::DataSpec* data : {copy.mutable_data(), copy.mutable_validation()}) {
    for (const std::string* path : DataPaths(*data)) {
      std::error_code error;
      // The files of a pattern are found by those who read them.
      const bool pattern = path->find_first_of("*?[{") != std::string::npos;
      if (!path->empty() && !pattern && !fs::exists(*path, error)) missing.push_back(*path);
    }
  }
  return missing;
}

absl::StatusOr<std::string> ReadModelConfig(v1::JobSpec& spec) {
  if (!spec.model().has_transformer() || spec.model().transformer().from().empty()) return "";
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  const std::string path = transformer.from();
  const absl::StatusOr<FileContent> content = FileContent::Open(path);
  if (absl::IsNotFound(content.status())) {
    return absl::NotFoundError(absl::StrCat("model.transformer.from is \"", path,
                                            "\", which does not exist; name a config.json"));
  }
  MUSTER_RETURN_IF_ERROR(content.status());
  v1::TransformerSpec whole;
  MUSTER_RETURN_IF_ERROR(ParseTransformerConfig(content->bytes(), path, whole));
  const std::string note =
      transformer.moe().auxiliary_loss() == 0 ? ConfigNote(whole) : std::string();
  // The job's own fields are merged last, so that they win; lists would be joined.
  if (!transformer.moe().dense_layers().empty()) whole.mutable_moe()->clear_dense_layers();
  if (!transformer.whole_layers().empty()) whole.clear_whole_layers();
  whole.MergeFrom(transformer);
  whole.clear_from();
  transformer.Swap(&whole);
  return note;
}

absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec) {
  if (spec.data().has_mixture() && spec.data().mixture().sources_size() > 0) {
    // The path stands for all sources, whose tokenizer is the same.
    const v1::SequenceData first = spec.data().mixture().sources(0).sequences();
    *spec.mutable_data()->mutable_sequences() = first;
  }
  const std::vector<std::string*> paths = DataPaths(*spec.mutable_data());
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, " does not apply: the job's data is synthetic"));
  }
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  if (spec.data().has_sequences()) {
    MUSTER_RETURN_IF_ERROR(KeepTokenizer(absolute, *spec.mutable_data()->mutable_sequences()));
  }
  *paths[0] = absolute;
  if (paths.size() > 1) {
    *paths[1] = absl::StrReplaceAll(absolute, {{"images-idx3", "labels-idx1"}});
    if (*paths[1] == absolute) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--data ", path, ": name the images …images-idx3…, with …labels-idx1… beside it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
