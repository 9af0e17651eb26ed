// Folders of models with experts: apart and fused, in several files, and what is refused.

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/model_folder_for_testing.h"
#include "common/model_files/test_weights.h"
#include "common/model_files/write_model_folder.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Spec = v1::TransformerSpec;

// Puts fused experts in the place of those apart, as newer programs hold them.
void Fuse(Tensors& tensors) {
  // The key is the prefix of a layer with experts, and then the expert.
  std::map<std::string, std::map<int, std::array<std::vector<float>, 3>>> experts;
  int64_t C = 0;
  int64_t F = 0;
  Tensors fused;
  for (const auto& [name, tensor] : tensors) {
    const size_t at = name.find(".experts.");
    if (at == std::string::npos) {
      fused[absl::StrReplaceAll(name, {{"block_sparse_moe", "mlp"}})] = tensor;
      continue;
    }
    const std::string layer =
        absl::StrReplaceAll(name.substr(0, at), {{"block_sparse_moe", "mlp"}});
    const int e = std::stoi(name.substr(at + strlen(".experts.")));
    const bool down = absl::StrContains(name, "w2") || absl::StrContains(name, "down_proj");
    const bool up = absl::StrContains(name, "w3") || absl::StrContains(name, "up_proj");
    experts[layer][e][down ? 2 : up ? 1 : 0] = tensor.second;
    if (down) {
      C = tensor.first[0];
      F = tensor.first[1];
    }
  }
  for (const auto& [layer, all] : experts) {
    auto& up = fused[layer + ".experts.gate_up_proj"];
    auto& down = fused[layer + ".experts.down_proj"];
    up.first = {static_cast<int64_t>(all.size()), 2 * F, C};
    down.first = {static_cast<int64_t>(all.size()), C, F};
    for (const auto& [e, matrices] : all) {
      for (const int i : {0, 1}) {
        up.second.insert(up.second.end(), matrices[i].begin(), matrices[i].end());
      }
      down.second.insert(down.second.end(), matrices[2].begin(), matrices[2].end());
    }
  }
  tensors = fused;
}

TEST(ExpertFolderTest, FusedExpertsAreReadAndWrittenApart) {
  for (const Spec& spec : {SmallMixtral(), SmallQwen2Moe()}) {
    const TempFolder temp;
    const TestWeights weights(spec);
    const std::string first = temp.path() + "/a";
    ASSERT_TRUE(WriteModelFolder(first, {weights}).ok());
    const std::string bytes = BytesOfFile(first + "/model.safetensors");
    Rewrite(first, Fuse);
    ASSERT_NE(BytesOfFile(first + "/model.safetensors"), bytes);
    const auto fused = ModelFolder::Open(first);
    ASSERT_TRUE(fused.ok()) << fused.status();
    ExpectSameWeights(**fused, weights);
    const std::string second = temp.path() + "/b";
    ASSERT_TRUE(WriteModelFolder(second, {**fused}).ok());
    EXPECT_EQ(BytesOfFile(second + "/model.safetensors"), bytes);
    EXPECT_EQ(BytesOfFile(second + "/config.json"), BytesOfFile(first + "/config.json"));
  }
}

// Experts of a layer may be in different files, and each is where its number says.
TEST(ExpertFolderTest, ExpertsInSeveralFilesComeBackInTheirOrder) {
  for (const Spec& spec : {SmallMixtral(), SmallQwen2Moe()}) {
    const TempFolder temp;
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(temp.path(), {weights}).ok());
    for (const int part : {0, 1, 2}) {
      const auto third = [part](Tensors& tensors) {
        int i = 0;
        for (auto each = tensors.begin(); each != tensors.end(); ++i) {
          each = i % 3 == part ? std::next(each) : tensors.erase(each);
        }
      };
      Rewrite(temp.path(), third, absl::StrCat(part, ".safetensors"));
    }
    std::filesystem::remove(temp.path() + "/model.safetensors");
    WriteIndex(temp.path(), {"0.safetensors", "1.safetensors", "2.safetensors"});
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameWeights(**read, weights);
  }
}

// The numbers of each expert's matrices, by the names that others read.
TEST(ExpertFolderTest, AnExpertsMatricesAreItsRows) {
  const TempFolder temp;
  const TestWeights weights(SmallMixtral());
  ASSERT_TRUE(WriteModelFolder(temp.path(), {weights}).ok());
  const auto file = SafetensorsFile::Open(temp.path() + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  std::vector<float> up, down;
  ASSERT_TRUE(weights.Read("block1.experts.up.weight", up).ok());
  ASSERT_TRUE(weights.Read("block1.experts.down.weight", down).ok());
  constexpr int kMatrix = 6 * 4;
  for (int e = 0; e < 3; ++e) {
    const auto expect = [&](const char* matrix, const std::vector<float>& all, int first) {
      const std::string name =
          absl::StrCat("model.layers.1.block_sparse_moe.experts.", e, ".", matrix, ".weight");
      const SafetensorsTensor& tensor = (*file)->tensors().at(name);
      std::vector<float> written(tensor.elements());
      ASSERT_TRUE(ReadAsFloats(tensor, name, 0, absl::MakeSpan(written)).ok());
      EXPECT_EQ(written, std::vector<float>(all.begin() + first, all.begin() + first + kMatrix))
          << name;
    };
    expect("w1", up, 2 * e * kMatrix);
    expect("w3", up, (2 * e + 1) * kMatrix);
    expect("w2", down, e * kMatrix);
  }
}

TEST(ExpertFolderTest, SaysWhichExpertIsMissingOrDoesNotFit) {
  const std::string experts = "model.layers.1.block_sparse_moe.experts.";
  const auto error = [](const std::function<void(Tensors&)>& change) {
    const TempFolder temp;
    EXPECT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallMixtral())}).ok());
    Rewrite(temp.path(), change);
    return OpenError(temp.path());
  };
  EXPECT_THAT(error([&](Tensors& tensors) { tensors.erase(experts + "2.w3.weight"); }),
              HasSubstr("has no tensor " + experts + "2.w3.weight, which its config.json asks"));
  EXPECT_THAT(error([&](Tensors& tensors) {
                tensors[experts + "2.w2.weight"] = {{6, 4}, std::vector<float>(24)};
              }),
              HasSubstr(experts + "2.w2.weight has shape [6, 4], expected [4, 6]"));
  EXPECT_THAT(error([&](Tensors& tensors) {
                tensors[experts + "3.w1.weight"] = {{6, 4}, std::vector<float>(24)};
              }),
              HasSubstr("has the tensor " + experts + "3.w1.weight of shape [6, 4], which Muster"));
  EXPECT_THAT(
      error([&](Tensors& tensors) {
        tensors["model.layers.0.block_sparse_moe.gate.weight"] = {{4, 4}, std::vector<float>(16)};
      }),
      HasSubstr("block_sparse_moe.gate.weight has shape [4, 4], expected [3, 4]"));
  EXPECT_THAT(error([&](Tensors& tensors) {
                tensors["model.layers.0.block_sparse_moe.gate.bias"] = {{3}, {1, 2, 3}};
              }),
              HasSubstr("block_sparse_moe.gate.bias of shape [3], which Muster's model has no"));
  // Fused ones as other families have them, [E, C, 2 F] and [E, F, C].
  EXPECT_THAT(error([](Tensors& tensors) {
                Fuse(tensors);
                auto& up = tensors["model.layers.0.mlp.experts.gate_up_proj"];
                std::swap(up.first[1], up.first[2]);
              }),
              HasSubstr("gate_up_proj has shape [3, 4, 12], expected [3, 12, 4]"));
  EXPECT_THAT(error([](Tensors& tensors) {
                Fuse(tensors);
                tensors["model.layers.0.mlp.experts.down_proj"].first = {3, 24};
              }),
              HasSubstr("down_proj has shape [3, 24], expected [3, 4, 6]"));
  // Fused in one layer alone.
  EXPECT_THAT(error([](Tensors& tensors) {
                Tensors fused = tensors;
                Fuse(fused);
                for (const char* name : {"gate_up_proj", "down_proj"}) {
                  const std::string tensor = absl::StrCat("model.layers.0.mlp.experts.", name);
                  tensors[tensor] = fused.at(tensor);
                }
              }),
              HasSubstr("has no tensor model.layers.0.mlp.gate.weight"));
}

TEST(ExpertFolderTest, FarMoreExpertsThanTensorsAreRefused) {
  const TempFolder temp;
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallMixtral())}).ok());
  auto config = nlohmann::json::parse(BytesOfFile(temp.path() + "/config.json"));
  config["num_local_experts"] = 1024;
  config["num_hidden_layers"] = 1000;
  temp.Write("config.json", config.dump());
  EXPECT_THAT(OpenError(temp.path()),
              HasSubstr("has 35 tensors, fewer than there are experts by its config.json: 1024 in "
                        "each of 1000 layers"));
}

TEST(ExpertFolderTest, ExpertsOfOtherShapesAreNotWritten) {
  const TempFolder temp;
  const std::string folder = temp.path() + "/made";
  const auto error = [&folder](const TestWeights& weights) {
    const absl::Status status = WriteModelFolder(folder, {weights});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  TestWeights more(SmallMixtral());
  more.spec_to_spoil().mutable_moe()->set_experts(4);
  EXPECT_THAT(error(more),
              HasSubstr("block0.router.weight has shape [3, 4], expected shape [4, 4]"));
  TestWeights many(SmallMixtral());
  many.spec_to_spoil().mutable_moe()->set_experts(1u << 31);
  EXPECT_THAT(error(many), HasSubstr("moe.experts is 2147483648, expected a number from 1 to"));
  TestWeights greedy(SmallMixtral());
  greedy.spec_to_spoil().mutable_moe()->set_top_k(4);
  EXPECT_THAT(error(greedy), HasSubstr("moe.top_k is 4, expected a number from 1 to 3"));
  TestWeights dense(SmallQwen2Moe());
  for (const uint32_t layer : {0, 2}) {
    dense.spec_to_spoil().mutable_moe()->add_dense_layers(layer);
  }
  EXPECT_THAT(error(dense), HasSubstr("moe.dense_layers are all its layers"));
  TestWeights beyond(SmallQwen2Moe());
  beyond.spec_to_spoil().mutable_moe()->add_dense_layers(3);
  EXPECT_THAT(error(beyond), HasSubstr("moe.dense_layers have the number 3, expected numbers from "
                                       "0 to 2"));
  TestWeights sigmoid(SmallMixtral());
  sigmoid.spec_to_spoil().mutable_moe()->set_scores(v1::MoeSpec::SIGMOID);
  EXPECT_THAT(error(sigmoid), HasSubstr("differs from Mixtral's by moe.scores SIGMOID"));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace muster
