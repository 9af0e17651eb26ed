#ifndef MUSTER_COMMON_MODEL_FILES_ADAPTER_FOLDER_H_
#define MUSTER_COMMON_MODEL_FILES_ADAPTER_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "common/files/output_file.h"
#include "common/model_files/weights.h"
#include "common/tensor/dtype.h"

namespace muster {

namespace v1 {
class AdapterSpec;
}  // namespace v1

// Refuses file names that WriteAdapterFolder would refuse later.
absl::Status CheckAdapterFolder(const std::string& folder, Replace replace);

// Writes the adapters among a transformer's weights into a folder, which is created if necessary,
// in the layout of Hugging Face's PEFT: adapter_config.json, and adapter_model.safetensors of the
// type (kF32, kBf16 or kF16), with lora_A [rank, in] for `down` and lora_B [out, rank] for `up`.
//
// GPT-2's queries, keys and values are one layer there, with one adapter: its lora_A has the rows
// of all of them, and its lora_B the columns of each where its rows are, and zeros elsewhere. Its
// rank and alpha are as many times larger, and named by patterns.
//
// InvalidArgument: the transformer is of no family that has such a layout, or the weights lack an
// adapter or have it in another shape. Other errors are those of OutputFile.
absl::Status WriteAdapterFolder(const std::string& folder, const Weights& weights,
                                const v1::AdapterSpec& adapter, DType type, Replace replace);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_ADAPTER_FOLDER_H_
