#ifndef MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_FOR_TESTING_H_
#define MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_FOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The shape and the values of each tensor of a file.
using Tensors = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>>;

// Copies a folder's weights, changed by `change`, into its model.safetensors, or into another of
// its files.
void Rewrite(const std::string& folder, const std::function<void(Tensors&)>& change,
             const std::string& name = "model.safetensors");

// Writes an index of these files: each tensor is in the first that has it.
void WriteIndex(const std::string& folder, const std::vector<std::string>& names);

// Returns what ModelFolder::Open says of the folder; empty if it opens.
std::string OpenError(const std::string& folder);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MODEL_FOLDER_FOR_TESTING_H_
