#include "client/job_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The fields of a data specification that hold paths.
std::vector<std::string*> DataPaths(v1::DataSpec& data) {
  switch (data.reader_case()) {
    case v1::DataSpec::kText:
      return {data.mutable_text()->mutable_path()};
    case v1::DataSpec::kIdx:
      return {data.mutable_idx()->mutable_images(), data.mutable_idx()->mutable_labels()};
    case v1::DataSpec::kLibsvm:
      return {data.mutable_libsvm()->mutable_path()};
    case v1::DataSpec::kCsv:
      return {data.mutable_csv()->mutable_path()};
    case v1::DataSpec::kSequences:
      return {data.mutable_sequences()->mutable_path()};
    default:
      return {};
  }
}

// Whether a tokenizer's name is one of a file or folder.
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
      " was made with another one; name the text, or tokens that `muster data tokenize` made of it "
      "with that tokenizer (a job that is to have another names it in data.sequences)"));
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
    return absl::OkStatus();
  }
  data.set_tokenizer(std::string(tokenizer));
  return absl::OkStatus();
}

// Relative paths begin at the job file's folder.
void ResolvePaths(const std::filesystem::path& folder, v1::DataSpec& data) {
  for (std::string* path : DataPaths(data)) {
    if (!path->empty()) *path = (folder / *path).lexically_normal().string();
  }
  if (data.has_sequences() && IsPath(data.sequences().tokenizer())) {
    std::string* const tokenizer = data.mutable_sequences()->mutable_tokenizer();
    *tokenizer = (folder / *tokenizer).lexically_normal().string();
  }
}

}  // namespace

absl::Status ParseJob(const std::string& text, const std::string& origin, v1::JobSpec& spec) {
  const auto stripped = absl::StripLeadingAsciiWhitespace(text);
  if (stripped.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, " is empty; `muster help submit` shows a job"));
  }
  if (stripped[0] == '{') {
    const auto parsed = google::protobuf::util::JsonStringToMessage(text, &spec);
    if (parsed.ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": not a job in JSON: ", std::string(parsed.message())));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(text, &spec)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(origin, ":", error.text()));
}

absl::Status ReadJobFile(const std::string& path, v1::JobSpec& spec) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the job file ", path));
  std::stringstream text;
  text << file.rdbuf();
  MUSTER_RETURN_IF_ERROR(ParseJob(text.str(), path, spec));
  const auto folder = std::filesystem::absolute(path).parent_path();
  ResolvePaths(folder, *spec.mutable_data());
  if (spec.has_validation()) ResolvePaths(folder, *spec.mutable_validation());
  return absl::OkStatus();
}

absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec) {
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
