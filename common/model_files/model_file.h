#ifndef MUSTER_COMMON_MODEL_FILES_MODEL_FILE_H_
#define MUSTER_COMMON_MODEL_FILES_MODEL_FILE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model_files/weights.h"
#include "common/safetensors/safetensors_file.h"
#include "common/tokenizer/tokenizer_identity.h"

namespace muster {

// What `muster export` writes of a transformer: a safetensors file under Muster's own names, which
// says in its metadata what the model is (a v1::TransformerSpec in text format) and, if that was
// known, how its tokens are made ("bytes", or a tokenizer.json).
class ModelFile final : public Weights {
 public:
  // NotFound: there is none. InvalidArgument: it is no such file, or does not say what model it
  // holds.
  static absl::StatusOr<std::unique_ptr<const ModelFile>> Open(const std::string& path);
  ~ModelFile() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

  // As Tokenizer::json() gives it; none if the file does not say.
  const std::optional<std::string>& tokenizer_json() const { return tokenizer_json_; }
  // That the weights learned from the tokens of; none if the file does not say.
  std::optional<TokenizerIdentity> tokenizer() const;

 private:
  ModelFile();

  absl::Status Parse(const std::string& path);

  // Const after Open.
  std::unique_ptr<v1::TransformerSpec> spec_;
  std::unique_ptr<const SafetensorsFile> file_;
  std::vector<MusterTensor> tensors_;
  std::optional<std::string> tokenizer_json_;
};

// The metadata that makes an exported file a ModelFile; `tokenizer_json` is as above.
std::map<std::string, std::string> ModelFileMetadata(
    const v1::TransformerSpec& spec, const std::optional<std::string>& tokenizer_json);

// Adds metadata to a safetensors file that passes by in pieces. Not thread-safe.
class MetadataInserter {
 public:
  using Metadata = std::map<std::string, std::string>;
  // What to add to a file that has this already.
  using Make = std::function<absl::StatusOr<Metadata>(const Metadata& present)>;
  using Sink = std::function<absl::Status(absl::string_view)>;

  MetadataInserter(Make make, Sink sink);

  // InvalidArgument: what passes by is no safetensors file. Or an error of `make`, before the sink
  // got anything, or the sink's.
  absl::Status Write(absl::string_view bytes);

 private:
  const Make make_;
  const Sink sink_;
  // What has come of the header; once it has passed, nothing.
  std::string header_;
  bool passed_ = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FILE_H_
