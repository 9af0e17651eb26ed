#ifndef MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_NAMES_H_
#define MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_NAMES_H_

namespace muster {

// Names of the files of a folder in Hugging Face's layout. Several files of weights have numbers in
// their names, and an index.
constexpr char kModelWeights[] = "model.safetensors";
constexpr char kModelIndex[] = "model.safetensors.index.json";
constexpr char kModelConfig[] = "config.json";
constexpr char kModelGeneration[] = "generation_config.json";
constexpr char kModelTokenizer[] = "tokenizer.json";
constexpr char kModelTokenizerConfig[] = "tokenizer_config.json";
constexpr char kModelChatTemplate[] = "chat_template.jinja";

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_NAMES_H_
