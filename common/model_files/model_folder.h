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

struct ModelFolderContents {
  const Weights& weights;
  // Empty if no tokenizer is known.
  std::string tokenizer_json = "";
  // Token that ends a document, and its text.
  std::optional<int32_t> end_of_text = std::nullopt;
  std::string end_of_text_name = "";
  // Text of the token that begins one; empty: the end of text does.
  std::string begin_of_text_name = "";
};

// Refuses file names that WriteModelFolder would refuse later.
absl::Status CheckModelFolder(const std::string& folder, Replace replace);

// Writes such a folder, which is created if necessary: config.json, model.safetensors in f32, and
// for a tokenizer tokenizer.json and tokenizer_config.json, without which readers would use the
// family's own tokenizer. InvalidArgument: the transformer is of no known family or has
// impossible sizes, or a tensor is missing or has the wrong shape; names it. Then nothing is
// written, unless the mistake only shows when the tensor is read. Other errors are those of
// OutputFile (common/files/output_file.h): a file is there already, or cannot be written.
absl::Status WriteModelFolder(const std::string& folder, const ModelFolderContents& contents,
                              Replace replace = Replace::kNever);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_H_
