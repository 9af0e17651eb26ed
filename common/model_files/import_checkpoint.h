#ifndef MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_
#define MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"
#include "common/model_files/weights.h"
#include "common/tokenizer/tokenizer_identity.h"

namespace muster {

// Writes weights as a complete checkpoint at clock 0, without optimizer state, for jobs to start
// from. `tokenizer` is what the weights learned from, if known. Tensors pass through memory one by
// one. AlreadyExists: `folder` holds a checkpoint. Other errors are those of the weights and the
// storage.
absl::Status WriteImportedCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                     const Weights& weights,
                                     const std::optional<TokenizerIdentity>& tokenizer);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_IMPORT_CHECKPOINT_H_
