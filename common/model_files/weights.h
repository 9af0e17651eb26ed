#ifndef MUSTER_COMMON_MODEL_FILES_WEIGHTS_H_
#define MUSTER_COMMON_MODEL_FILES_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model_files/transformer_layout.h"

namespace muster {

// A transformer's weights in some storage. Thread-safe.
class Weights {
 public:
  virtual ~Weights() = default;

  // Returns the complete specification: no field is left to its default.
  virtual const v1::TransformerSpec& spec() const = 0;

  // Returns the existing tensors of Muster's, without tied ones.
  virtual const std::vector<MusterTensor>& tensors() const = 0;

  // Replaces `values` by a tensor's elements, row-major. NotFound: there is no tensor of this name.
  // InvalidArgument: the tensor's type cannot be read.
  virtual absl::Status Read(const std::string& tensor, std::vector<float>& values) const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_WEIGHTS_H_
