#include "common/model_files/model_folder_for_testing.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/types/span.h"
#include "common/files/output_file.h"
#include "common/model_files/model_folder.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_writer.h"
#include "gtest/gtest.h"

namespace muster {

void Rewrite(const std::string& folder, const std::function<void(Tensors&)>& change,
             const std::string& name) {
  Tensors tensors;
  {
    const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& [tensor_name, tensor] : (*file)->tensors()) {
      auto& copy = tensors[tensor_name];
      copy.first = tensor.shape;
      copy.second.resize(tensor.elements());
      ASSERT_TRUE(ReadAsFloats(tensor, tensor_name, 0, absl::MakeSpan(copy.second)).ok());
    }
  }
  change(tensors);
  std::vector<SafetensorsWriter::Tensor> announced;
  for (const auto& [tensor_name, tensor] : tensors)
    announced.push_back({tensor_name, tensor.first});
  auto writer =
      SafetensorsWriter::Create(folder + "/" + name, announced, {}, DType::kF32, Replace::kFiles);
  ASSERT_TRUE(writer.ok());
  for (const auto& [tensor_name, tensor] : tensors) (*writer)->Append(tensor.second);
  ASSERT_TRUE((*writer)->Finish().ok());
}

void WriteIndex(const std::string& folder, const std::vector<std::string>& names) {
  nlohmann::json index;
  for (const std::string& name : names) {
    const auto file = SafetensorsFile::Open(folder + "/" + name);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& [tensor_name, tensor] : (*file)->tensors()) {
      if (!index["weight_map"].contains(tensor_name)) index["weight_map"][tensor_name] = name;
    }
  }
  std::ofstream(folder + "/model.safetensors.index.json") << index;
}

std::string OpenError(const std::string& folder) {
  return std::string(ModelFolder::Open(folder).status().message());
}

}  // namespace muster
