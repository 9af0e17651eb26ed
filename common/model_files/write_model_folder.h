#ifndef MUSTER_COMMON_MODEL_FILES_WRITE_MODEL_FOLDER_H_
#define MUSTER_COMMON_MODEL_FILES_WRITE_MODEL_FOLDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/files/output_file.h"
#include "common/model_files/weights.h"
#include "common/tensor/dtype.h"

namespace muster {

struct ModelFolderContents {
  const Weights& weights;
  // Empty if no tokenizer is known.
  std::string tokenizer_json = "";
  // Token that ends a document, and its text.
  std::optional<int32_t> end_of_text = std::nullopt;
  std::string end_of_text_name = "";
  // The text of the token that begins one, and the token; without one, the end of text does.
  std::string begin_of_text_name = "";
  std::optional<int32_t> begin_of_text = std::nullopt;
  // The template that makes chats text; empty: it is not known.
  std::string chat_template = "";
  // Texts of special tokens by name, such as eos_token, which count before the names above.
  std::map<std::string, std::string> special_tokens = {};
  // Further tokens that end what a model writes, such as that which ends a turn of a chat.
  std::vector<int32_t> ends_of_turns = {};
  // Type of the weights: kF32, kBf16 or kF16; values are rounded to the nearest.
  DType type = DType::kF32;
  // Most bytes of tensors in a file of weights, unless one tensor has more.
  uint64_t file_bytes = 5'000'000'000;
};

// Refuses file names that WriteModelFolder would refuse later.
absl::Status CheckModelFolder(const std::string& folder, Replace replace);

// Writes a folder as ModelFolder reads it, which is created if necessary: config.json,
// generation_config.json, the weights (WeightFiles), and for a tokenizer tokenizer.json and
// tokenizer_config.json, without which readers would use the family's own tokenizer.
// InvalidArgument: the transformer is of no known family or has impossible sizes, or a tensor is
// missing or has the wrong shape; names it. Then nothing is written, unless the mistake only shows
// when the tensor is read, as a value that the type cannot hold. Other errors are those of
// OutputFile (common/files/output_file.h): a file is there already, or cannot be written.
absl::Status WriteModelFolder(const std::string& folder, const ModelFolderContents& contents,
                              Replace replace = Replace::kNever);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_WRITE_MODEL_FOLDER_H_
