// Weights with adapters: merged, and in PEFT's layout.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/model_files/adapter_folder.h"
#include "common/model_files/adapter_layout.h"
#include "common/model_files/merged_weights.h"
#include "common/model_files/model_file.h"
#include "common/model_files/test_weights.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::AdapterSpec AdapterOf(std::vector<std::string> targets) {
  v1::AdapterSpec adapter;
  adapter.set_rank(2);
  adapter.set_alpha(3);
  for (std::string& target : targets) adapter.add_targets(std::move(target));
  return adapter;
}

// Adds adapters whose numbers all differ to weights.
void AddTo(TestWeights& weights, const v1::AdapterSpec& adapter) {
  int next = 1;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    weights.tensors_to_spoil().push_back({name, {rows, columns}});
    std::vector<float>& values = weights.values_to_spoil()[name];
    for (int64_t i = 0; i < rows * columns; ++i)
      values.push_back(0.01f * static_cast<float>(next++));
  };
  for (uint32_t block = 0; block < weights.spec().layers(); ++block) {
    for (const AdapterPlace& place : AdapterPlaces(weights.spec(), adapter)) {
      add(AdapterTensorName(block, place.target, "down"), adapter.rank(), place.in);
      add(AdapterTensorName(block, place.target, "up"), place.rows, adapter.rank());
    }
  }
}

std::vector<float> Read(const Weights& weights, const std::string& tensor) {
  std::vector<float> values;
  EXPECT_TRUE(weights.Read(tensor, values).ok()) << tensor;
  return values;
}

std::vector<float> Read(const SafetensorsFile& file, const std::string& tensor) {
  std::vector<float> values(file.tensors().at(tensor).elements());
  EXPECT_TRUE(ReadAsFloats(file.tensors().at(tensor), tensor, 0, absl::MakeSpan(values)).ok());
  return values;
}

TEST(MergedWeightsTest, AddAdaptersToTheirRows) {
  TestWeights weights(SmallLlama());
  const v1::AdapterSpec adapter = AdapterOf({"value", "up", "query"});
  AddTo(weights, adapter);
  const MergedWeights merged(weights, adapter);
  TestWeights plain(SmallLlama());
  EXPECT_EQ(merged.tensors().size(), plain.tensors().size());
  for (const MusterTensor& tensor : plain.tensors()) {
    std::vector<float> expected = Read(plain, tensor.name);
    for (uint32_t block = 0; block < plain.spec().layers(); ++block) {
      for (const AdapterPlace& place : AdapterPlaces(plain.spec(), adapter)) {
        if (tensor.name != absl::StrCat("block", block, ".", place.matrix)) continue;
        const auto down = Read(weights, AdapterTensorName(block, place.target, "down"));
        const auto up = Read(weights, AdapterTensorName(block, place.target, "up"));
        for (int64_t row = 0; row < place.rows; ++row) {
          for (int64_t i = 0; i < place.in; ++i) {
            expected[(place.first_row + row) * place.in + i] +=
                1.5f * (up[row * 2] * down[i] + up[row * 2 + 1] * down[place.in + i]);
          }
        }
      }
    }
    const std::vector<float> values = Read(merged, tensor.name);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << tensor.name;
    }
  }
}

TEST(MergedWeightsTest, AdaptersOfAnotherShapeAreRefused) {
  TestWeights weights(SmallLlama());
  const v1::AdapterSpec adapter = AdapterOf({"query"});
  AddTo(weights, adapter);
  weights.values_to_spoil()["block0.query.adapter.up"].pop_back();
  std::vector<float> values;
  EXPECT_THAT(
      std::string(MergedWeights(weights, adapter).Read("block0.qkv.weight", values).message()),
      HasSubstr("of another model"));
}

TEST(AdapterFolderTest, HasTheNamesOfLlamasLayers) {
  const TempFolder temp;
  TestWeights weights(SmallLlama());
  const v1::AdapterSpec adapter = AdapterOf({"query", "down"});
  AddTo(weights, adapter);
  ASSERT_TRUE(WriteAdapterFolder(temp.path(), weights, adapter, DType::kF32, Replace::kNever).ok());
  const auto config =
      nlohmann::json::parse(BytesOfFile(absl::StrCat(temp.path(), "/adapter_config.json")));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 2);
  EXPECT_EQ(config["lora_alpha"], 3);
  EXPECT_EQ(config["target_modules"], (nlohmann::json{"q_proj", "down_proj"}));
  EXPECT_EQ(config["fan_in_fan_out"], false);
  const auto file = SafetensorsFile::Open(absl::StrCat(temp.path(), "/adapter_model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 4 * weights.spec().layers());
  const std::string layer = "base_model.model.model.layers.1.";
  EXPECT_EQ(Read(**file, layer + "self_attn.q_proj.lora_A.weight"),
            Read(weights, "block1.query.adapter.down"));
  EXPECT_EQ(Read(**file, layer + "self_attn.q_proj.lora_B.weight"),
            Read(weights, "block1.query.adapter.up"));
  EXPECT_EQ(Read(**file, layer + "mlp.down_proj.lora_A.weight"),
            Read(weights, "block1.down.adapter.down"));
  EXPECT_FALSE(
      WriteAdapterFolder(temp.path(), weights, adapter, DType::kF32, Replace::kNever).ok());
}

// What the files' matrices add to GPT-2's fused one is what merging adds.
TEST(AdapterFolderTest, FusedLayersOfGpt2AddTheSame) {
  const TempFolder temp;
  TestWeights weights(SmallGpt2());
  const v1::AdapterSpec adapter = AdapterOf({"query", "value", "up"});
  AddTo(weights, adapter);
  ASSERT_TRUE(WriteAdapterFolder(temp.path(), weights, adapter, DType::kF32, Replace::kNever).ok());
  const auto config =
      nlohmann::json::parse(BytesOfFile(absl::StrCat(temp.path(), "/adapter_config.json")));
  EXPECT_EQ(config["rank_pattern"]["attn.c_attn"], 4);
  EXPECT_EQ(config["alpha_pattern"]["attn.c_attn"], 6);
  EXPECT_EQ(config["fan_in_fan_out"], true);
  const auto file = SafetensorsFile::Open(absl::StrCat(temp.path(), "/adapter_model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string layer = "base_model.model.transformer.h.0.attn.c_attn.";
  const std::vector<float> a = Read(**file, layer + "lora_A.weight");
  const std::vector<float> b = Read(**file, layer + "lora_B.weight");
  const std::vector<float> merged = Read(MergedWeights(weights, adapter), "block0.qkv.weight");
  const std::vector<float> plain = Read(weights, "block0.qkv.weight");
  const size_t in = weights.spec().width();
  ASSERT_EQ(a.size(), 4 * in);
  ASSERT_EQ(b.size(), 3 * in * 4);
  for (size_t row = 0; row < 3 * in; ++row) {
    for (size_t i = 0; i < in; ++i) {
      float added = 0;
      for (size_t r = 0; r < 4; ++r) added += 1.5f * b[row * 4 + r] * a[r * in + i];
      ASSERT_NEAR(merged[row * in + i] - plain[row * in + i], added,
                  1e-5 * (1 + std::abs(plain[row * in + i])))
          << row;
    }
  }
}

}  // namespace
}  // namespace muster
