#include "client/job_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/token_file.h"
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

// A token file has its own tokenizer. Text in its place is encoded by the same one, and a token
// file in place of text names none.
void KeepTokenizer(const std::string& new_path, v1::SequenceData& data) {
  if (IsTokenFileAt(new_path)) {
    data.clear_tokenizer();
  } else if (data.tokenizer().empty() && IsTokenFileAt(data.path())) {
    data.set_tokenizer(data.path());
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
  for (std::string* data_path : DataPaths(*spec.mutable_data())) {
    if (!data_path->empty()) *data_path = (folder / *data_path).lexically_normal().string();
  }
  if (spec.data().has_sequences() && IsPath(spec.data().sequences().tokenizer())) {
    std::string* const tokenizer = spec.mutable_data()->mutable_sequences()->mutable_tokenizer();
    *tokenizer = (folder / *tokenizer).lexically_normal().string();
  }
  return absl::OkStatus();
}

absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec) {
  const std::vector<std::string*> paths = DataPaths(*spec.mutable_data());
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, " does not apply: the job's data is synthetic"));
  }
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  if (spec.data().has_sequences())
    KeepTokenizer(absolute, *spec.mutable_data()->mutable_sequences());
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
