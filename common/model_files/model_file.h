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

namespace v1 {
class AdapterSpec;
}  // namespace v1

// The file that `muster export` writes for a transformer: a safetensors file with Muster's tensor
// names. Its metadata hold the model (a v1::TransformerSpec in text format), its adapters, if it
// has some (a v1::AdapterSpec), and, if known, how its tokens are made ("bytes", or a
// tokenizer.json).
class ModelFile final : public Weights {
 public:
  // NotFound: there is no such file. InvalidArgument: the file is not a safetensors file, or does
  // not say what model it holds.
  static absl::StatusOr<std::unique_ptr<const ModelFile>> Open(const std::string& path);
  ~ModelFile() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

  // Returns the adapters among the tensors; nothing if there are none.
  const v1::AdapterSpec* adapter() const { return adapter_.get(); }
  // Returns what Tokenizer::json() gave; nothing if the file does not have it.
  const std::optional<std::string>& tokenizer_json() const { return tokenizer_json_; }
  // Returns the tokenizer that the weights learned from; nothing if the file does not say.
  std::optional<TokenizerIdentity> tokenizer() const;

 private:
  ModelFile();

  absl::Status Parse(const std::string& path);

  // Const after Open.
  std::unique_ptr<v1::TransformerSpec> spec_;
  std::unique_ptr<v1::AdapterSpec> adapter_;
  std::unique_ptr<const SafetensorsFile> file_;
  std::vector<MusterTensor> tensors_;
  std::optional<std::string> tokenizer_json_;
};

// Returns the metadata that make an exported file a ModelFile; `tokenizer_json` is as above.
std::map<std::string, std::string> ModelFileMetadata(
    const v1::TransformerSpec& spec, const std::optional<std::string>& tokenizer_json);

// Adds to these that the file has adapters.
void AddAdapter(const v1::AdapterSpec& adapter, std::map<std::string, std::string>& metadata);

// Adds metadata to a safetensors file that is passed through in consecutive parts. Not thread-safe.
class MetadataInserter {
 public:
  using Metadata = std::map<std::string, std::string>;
  // Returns what to add to a file that has the metadata `present`.
  using Make = std::function<absl::StatusOr<Metadata>(const Metadata& present)>;
  using Sink = std::function<absl::Status(absl::string_view)>;

  MetadataInserter(Make make, Sink sink);

  // InvalidArgument: the bytes are not a safetensors file. Other errors are those of `make`, before
  // the sink got anything, or of the sink.
  absl::Status Write(absl::string_view bytes);

 private:
  const Make make_;
  const Sink sink_;
  // The part of the header that has come; empty once the header has passed.
  std::string header_;
  bool passed_ = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FILE_H_
