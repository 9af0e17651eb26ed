#ifndef MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_
#define MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/output_file.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/weights.h"
#include "common/safetensors/safetensors_file.h"

namespace muster {

// A transformer in a folder as Hugging Face lays it out: config.json, model.safetensors (or several
// files and model.safetensors.index.json), and its tokenizer, if there is one: tokenizer.json, or
// vocab.json and merges.txt. Immutable, so thread-safe.
class ModelFolder final : public Weights {
 public:
  // Of several files, the index says which holds a tensor; others of that name are not read. Where
  // the head is the embedding, either name will do. NotFound: the folder or a file of it is
  // missing. InvalidArgument: a file is damaged, the model is of a kind that Muster does not
  // compute (names the field), a tensor is missing, of another shape than config.json says, or of
  // no known use.
  static absl::StatusOr<std::unique_ptr<const ModelFolder>> Open(const std::string& folder);
  ~ModelFolder() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

 private:
  explicit ModelFolder(std::string folder);

  absl::Status OpenFiles();
  // Notes the tensors of a file: all, or those that the index says are in it.
  absl::Status AddTensors(const SafetensorsFile& file, const std::set<std::string>* indexed);
  // Finds each tensor of the layout, and refuses what is left over.
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

struct ModelFolderContents {
  const Weights& weights;
  // Empty where none is known.
  std::string tokenizer_json = "";
  // The tokenizer's token that ends a document, and its text.
  std::optional<int32_t> end_of_text = std::nullopt;
  std::string end_of_text_name = "";
};

// Refuses now what WriteModelFolder would refuse later of the names of its files.
absl::Status CheckModelFolder(const std::string& folder, Replace replace);

// Writes such a folder, which is made if need be: config.json, model.safetensors in f32, and for a
// tokenizer tokenizer.json and tokenizer_config.json, without which readers would take the family's
// own tokenizer. InvalidArgument: the transformer is of neither known family or of impossible
// sizes, or a tensor is missing or of another shape than it has; names it, and nothing is written,
// unless it is only found when the tensor is read. Or an error of OutputFile
// (common/files/output_file.h): a file is there already, or cannot be written.
absl::Status WriteModelFolder(const std::string& folder, const ModelFolderContents& contents,
                              Replace replace = Replace::kNever);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_
