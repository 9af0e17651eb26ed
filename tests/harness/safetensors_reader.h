#ifndef MUSTER_TESTS_HARNESS_SAFETENSORS_READER_H_
#define MUSTER_TESTS_HARNESS_SAFETENSORS_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// A tensor as an exported file holds it.
struct ExportedTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  // Raw little-endian elements.
  std::string bytes;

  // The elements of an F32 tensor.
  std::vector<float> Floats() const;

  friend bool operator==(const ExportedTensor&, const ExportedTensor&) = default;
};

// By name. Two exports of equal weights are equal, whatever their metadata and the order of a
// sparse table's rows, which are put into ascending order of key.
using ExportedTensors = std::map<std::string, ExportedTensor>;

// Parses a safetensors file by its published layout alone, independently of the code that writes
// it. InvalidArgument: it is malformed, has a gap or an overlap.
absl::StatusOr<ExportedTensors> ReadSafetensors(const std::string& file);

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_SAFETENSORS_READER_H_
