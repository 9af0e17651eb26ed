#ifndef MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_
#define MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/weights.h"
#include "common/safetensors/safetensors_file.h"

namespace muster {

// A transformer in a folder in Hugging Face's layout: config.json, model.safetensors (or several
// files and model.safetensors.index.json), and its tokenizer, if there is one: tokenizer.json, or
// vocab.json and merges.txt. Experts are apart or fused in the files, and apart in written ones.
// Immutable, so thread-safe.
class ModelFolder final : public Weights {
 public:
  // If there are several files, the index says which file holds a tensor; tensors of that name in
  // other files are not read. If the head is the embedding, either name will do. NotFound: the
  // folder or one of its files is missing. InvalidArgument: a file is damaged; Muster does not
  // compute this kind of model (names the field); a tensor is missing, has another shape than
  // config.json says, or has no known use.
  static absl::StatusOr<std::unique_ptr<const ModelFolder>> Open(const std::string& folder);
  ~ModelFolder() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

 private:
  explicit ModelFolder(std::string folder);

  absl::Status OpenFiles();
  // Notes the tensors of a file: all of them, or those that the index says are in the file.
  absl::Status AddTensors(const SafetensorsFile& file, const std::set<std::string>* indexed);
  // Finds each tensor of the layout, and refuses tensors that are left over.
  absl::Status Match();
  const SafetensorsTensor* Find(const std::string& name) const;

  const std::string folder_;
  // Const after Open.
  std::unique_ptr<v1::TransformerSpec> spec_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsTensor*> found_;
  std::vector<HuggingFaceTensor> layout_;
  std::vector<MusterTensor> tensors_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_
