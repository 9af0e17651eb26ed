#ifndef MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_
#define MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"
#include "common/model_files/weights.h"
#include "common/tokenizer/tokenizer_identity.h"

namespace muster {

// Writes weights as a complete checkpoint at clock 0, without optimizer state, which jobs start
// from. `tokenizer` is what the weights learned from, as far as that is known. Tensors pass through
// memory one by one. AlreadyExists: `folder` holds a checkpoint. Errors of the weights and the
// storage as they are.
absl::Status WriteImportedCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                     const Weights& weights,
                                     const std::optional<TokenizerIdentity>& tokenizer);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_
