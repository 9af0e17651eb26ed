#include "common/model_files/model_folder.h"

#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "common/files/output_file.h"
#include "common/files/temp_folder.h"
#include "common/model_files/model_folder_for_testing.h"
#include "common/model_files/test_weights.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/write_model_folder.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Spec = v1::TransformerSpec;

TEST(ModelFolderTest, WhatIsWrittenIsReadBack) {
  for (const Spec& spec : {SmallGpt2(), SmallLlama(), SmallQwen2(), SmallQwen3(), SmallMixtral(),
                           SmallQwen2Moe(), SmallQwen3Moe(), SmallOlmoe()}) {
    const TempFolder temp;
    const std::string folder = temp.path() + "/made/here";
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(folder, {weights, "{}", 5, "</s>"}).ok());
    EXPECT_EQ(BytesOfFile(folder + "/tokenizer.json"), "{}");
    const auto read = ModelFolder::Open(folder);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameWeights(**read, weights);
  }
}

// Without it readers take the family's tokenizer, which is another one.
TEST(ModelFolderTest, ATokenizerIsWrittenWithItsClass) {
  for (const Spec& spec : {SmallGpt2(), SmallLlama()}) {
    const TempFolder temp;
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(temp.path() + "/a", {weights, "{}", 5, "</s>"}).ok());
    const std::string path = "/tokenizer_config.json";
    nlohmann::json expected = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"model_max_length", 8},
                               {"clean_up_tokenization_spaces", false},
                               {"bos_token", "</s>"},
                               {"eos_token", "</s>"}};
    EXPECT_EQ(nlohmann::json::parse(BytesOfFile(temp.path() + "/a" + path)), expected);
    ASSERT_TRUE(WriteModelFolder(temp.path() + "/d", {weights, "{}", 5, "</s>", "<s>"}).ok());
    expected["bos_token"] = "<s>";
    EXPECT_EQ(nlohmann::json::parse(BytesOfFile(temp.path() + "/d" + path)), expected);
    // With bytes nothing ends a text.
    ASSERT_TRUE(WriteModelFolder(temp.path() + "/b", {weights, "{}"}).ok());
    expected.erase("bos_token");
    expected.erase("eos_token");
    EXPECT_EQ(nlohmann::json::parse(BytesOfFile(temp.path() + "/b" + path)), expected);
    ASSERT_TRUE(WriteModelFolder(temp.path() + "/c", {weights}).ok());
    EXPECT_FALSE(std::filesystem::exists(temp.path() + "/c" + path));
  }
}

TEST(ModelFolderTest, FilesThatAreThereAreReplacedOnlyIfAsked) {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                           "tokenizer.json", "tokenizer_config.json"}) {
    const TempFolder temp;
    const TestWeights weights(SmallGpt2());
    temp.Write(name, "mine");
    for (const absl::Status& status : {WriteModelFolder(temp.path(), {weights, "{}"}),
                                       CheckModelFolder(temp.path(), Replace::kNever)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("/", name, " is there")));
    }
    EXPECT_EQ(BytesOfFile(temp.path() + "/" + name), "mine");
    ASSERT_TRUE(CheckModelFolder(temp.path(), Replace::kFiles).ok());
    ASSERT_TRUE(WriteModelFolder(temp.path(), {weights}, Replace::kFiles).ok());
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    // Would be taken for the tokenizer of these weights.
    EXPECT_FALSE(std::filesystem::exists(temp.path() + "/tokenizer.json"));
    EXPECT_FALSE(std::filesystem::exists(temp.path() + "/tokenizer_config.json"));
  }
}

// A file of an older set of files may hold tensors that others have now.
TEST(ModelFolderTest, TheIndexSaysWhichFileHoldsATensor) {
  for (const Spec& spec : {SmallGpt2(), SmallLlama(), SmallQwen2Moe()}) {
    const TempFolder temp;
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(temp.path(), {weights}).ok());
    Rewrite(
        temp.path(), [](Tensors&) {}, "1.safetensors");
    const auto spoil = [](Tensors& tensors) {
      for (auto& [name, tensor] : tensors) tensor.second[0] = -1;
      tensors["left.over"] = {{1}, {2}};
    };
    Rewrite(temp.path(), spoil, "2.safetensors");
    std::filesystem::remove(temp.path() + "/model.safetensors");
    // Whichever is read last.
    for (const auto& [right, wrong] : {std::pair("1.safetensors", "2.safetensors"),
                                       std::pair("2.safetensors", "1.safetensors")}) {
      WriteIndex(temp.path(), {right});
      nlohmann::json index =
          nlohmann::json::parse(BytesOfFile(temp.path() + "/model.safetensors.index.json"));
      index["weight_map"].erase("left.over");
      // Something of either file is used.
      const std::string last = spec.separate_head() ? "lm_head.weight" : "transformer.wpe.weight";
      index["weight_map"][last] = wrong;
      temp.Write("model.safetensors.index.json", index.dump());
      const auto read = ModelFolder::Open(temp.path());
      ASSERT_TRUE(read.ok()) << read.status();
      std::vector<float> values, expected;
      ASSERT_TRUE((*read)->Read("embedding.weight", values).ok());
      ASSERT_TRUE(weights.Read("embedding.weight", expected).ok());
      if (right[0] == '2') expected[0] = -1;
      EXPECT_EQ(values, expected);
    }
  }
}

TEST(ModelFolderTest, ATensorThatTheIndexNamesMustBeThere) {
  const TempFolder temp;
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallGpt2())}).ok());
  std::filesystem::rename(temp.path() + "/model.safetensors", temp.path() + "/1.safetensors");
  WriteIndex(temp.path(), {"1.safetensors"});
  EXPECT_TRUE(ModelFolder::Open(temp.path()).ok());
  temp.Write("model.safetensors.index.json", R"({"weight_map":{"gone":"1.safetensors"}})");
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("says that the tensor gone is in "));
}

// What is left of two names for one tensor.
TEST(ModelFolderTest, ATiedHeadMayBeTheNameOfTheEmbedding) {
  for (Spec spec : {SmallGpt2(), SmallLlama(), SmallMixtral()}) {
    spec.set_separate_head(false);
    const TempFolder temp;
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(temp.path(), {weights}).ok());
    const std::string name = EmbeddingName(*FamilyOf(spec));
    Rewrite(temp.path(), [&name](Tensors& tensors) {
      tensors["lm_head.weight"] = tensors.at(name);
      tensors.erase(name);
    });
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameWeights(**read, weights);
  }
  // A head of its own is not the embedding.
  const TempFolder temp;
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallLlama())}).ok());
  Rewrite(temp.path(), [](Tensors& tensors) { tensors.erase("model.embed_tokens.weight"); });
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("no tensor model.embed_tokens.weight"));
}

TEST(ModelFolderTest, ATensorUnderTwoNamesIsRefused) {
  const TempFolder temp;
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallGpt2())}).ok());
  Rewrite(temp.path(),
          [](Tensors& tensors) { tensors["wpe.weight"] = tensors.at("transformer.wpe.weight"); });
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("has the tensor wpe.weight twice"));
}

TEST(ModelFolderTest, WhatHasNoBiasesIsWrittenWithZeros) {
  const TempFolder temp;
  Spec spec = SmallGpt2();
  spec.set_no_biases(true);
  const TestWeights weights(spec);
  ASSERT_TRUE(WriteModelFolder(temp.path(), {weights, "", std::nullopt}).ok());
  const auto read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE((*read)->spec().no_biases());
  int biases = 0;
  for (const MusterTensor& tensor : (*read)->tensors()) {
    std::vector<float> actual, expected;
    ASSERT_TRUE((*read)->Read(tensor.name, actual).ok());
    if (absl::EndsWith(tensor.name, ".bias")) {
      ++biases;
      expected.resize(tensor.shape[0]);
    } else {
      ASSERT_TRUE(weights.Read(tensor.name, expected).ok());
    }
    EXPECT_EQ(actual, expected) << tensor.name;
  }
  EXPECT_EQ(biases, 2 * 6 + 1);
}

TEST(ModelFolderTest, Gpt2sMatricesLieTransposedInTheFile) {
  const TempFolder temp;
  const TestWeights weights(SmallGpt2());
  ASSERT_TRUE(WriteModelFolder(temp.path(), {weights, "", std::nullopt}).ok());
  EXPECT_FALSE(std::filesystem::exists(temp.path() + "/tokenizer.json"));
  const auto file = SafetensorsFile::Open(temp.path() + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  const SafetensorsTensor& tensor = (*file)->tensors().at("transformer.h.1.mlp.c_fc.weight");
  std::vector<float> written(tensor.elements());
  ASSERT_TRUE(ReadAsFloats(tensor, "c_fc", 0, absl::MakeSpan(written)).ok());
  std::vector<float> expected;
  ASSERT_TRUE(weights.Read("block1.up.weight", expected).ok());
  for (int in = 0; in < 4; ++in) {
    for (int out = 0; out < 16; ++out) EXPECT_EQ(written[in * 16 + out], expected[out * 4 + in]);
  }
}

TEST(ModelFolderTest, ReadsFilesWithoutPrefixWithMasksAndInParts) {
  const TempFolder temp;
  const TestWeights weights(SmallGpt2());
  ASSERT_TRUE(WriteModelFolder(temp.path(), {weights, "", std::nullopt}).ok());
  Rewrite(temp.path(), [](Tensors& tensors) {
    Tensors bare;
    for (const auto& [name, tensor] : tensors) bare[name.substr(strlen("transformer."))] = tensor;
    bare["h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
    bare["h.0.attn.masked_bias"] = {{}, {-1e4f}};
    // Written out although it is tied.
    bare["lm_head.weight"] = bare["wte.weight"];
    tensors = bare;
  });
  auto read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameWeights(**read, weights);
  for (const bool first : {true, false}) {
    const auto half = [first](Tensors& tensors) {
      for (auto each = tensors.begin(); each != tensors.end();) {
        each = (each->first < "h.1") == first ? std::next(each) : tensors.erase(each);
      }
    };
    Rewrite(temp.path(), half, first ? "model-1.safetensors" : "model-2.safetensors");
  }
  std::filesystem::remove(temp.path() + "/model.safetensors");
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("has no model.safetensors"));
  WriteIndex(temp.path(), {"model-1.safetensors", "model-2.safetensors"});
  read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameWeights(**read, weights);
  temp.Write("model.safetensors.index.json", R"({"weight_map":{"a":"../model-1.safetensors"}})");
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("'../model-1.safetensors'"));
}

TEST(ModelFolderTest, SaysWhatIsMissingOrDoesNotFit) {
  const TempFolder temp;
  EXPECT_THAT(OpenError(temp.path() + "/none"), HasSubstr("is no folder"));
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("no config.json"));
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(SmallLlama()), "", std::nullopt}).ok());
  Rewrite(temp.path(), [](Tensors& tensors) {
    tensors["model.layers.0.self_attn.q_proj.bias"] = {{4}, {1, 2, 3, 4}};
  });
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("q_proj.bias of shape [4], which Muster's model"));
  Rewrite(temp.path(), [](Tensors& tensors) {
    tensors.erase("model.layers.0.self_attn.q_proj.bias");
    tensors["model.norm.weight"] = {{3}, {1, 2, 3}};
  });
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("model.norm.weight has shape [3], expected [4]"));
  Rewrite(temp.path(), [](Tensors& tensors) { tensors.erase("model.norm.weight"); });
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("no tensor model.norm.weight"));
  std::filesystem::remove(temp.path() + "/model.safetensors");
  temp.Write("pytorch_model.bin", "x");
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("pickle"));
}

TEST(ModelFolderTest, WeightsOfOtherShapesAreNotWritten) {
  const TempFolder temp;
  const std::string folder = temp.path() + "/made";
  const auto error = [&folder](const TestWeights& weights) {
    const absl::Status status = WriteModelFolder(folder, {weights, "{}", std::nullopt});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  for (const Spec& spec : {SmallGpt2(), SmallLlama()}) {
    TestWeights smaller(spec);
    for (MusterTensor& tensor : smaller.tensors_to_spoil()) {
      if (tensor.name == "block1.up.weight") tensor.shape = {3, 4};
    }
    smaller.values_to_spoil()["block1.up.weight"].resize(12);
    EXPECT_THAT(error(smaller), HasSubstr("block1.up.weight has shape [3, 4], expected shape ["));
    TestWeights fewer(spec);
    fewer.tensors_to_spoil().pop_back();
    EXPECT_THAT(error(fewer), HasSubstr("is missing"));
    TestWeights cut(spec);
    cut.values_to_spoil()["block0.proj.weight"].resize(5);
    EXPECT_THAT(error(cut), HasSubstr("block0.proj.weight has 5 elements, expected 16"));
    TestWeights none(spec);
    none.spec_to_spoil().set_layers(0);
    EXPECT_THAT(error(none), HasSubstr("layers is 0"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/config.json"));
}

// Whatever is wrong, it is refused, or nothing is.
TEST(ModelFolderTest, RandomDamageToShapesIsRefused) {
  const TempFolder temp;
  std::mt19937 random(29);
  const auto number = [&random]() -> int64_t {
    constexpr int64_t kNumbers[] = {
        0, 1, 2, 3, 4, 5, 8, 11, 16, 1 << 16, int64_t{1} << 32, int64_t{1} << 62, -1};
    return kNumbers[random() % std::size(kNumbers)];
  };
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    const Spec specs[] = {SmallGpt2(),    SmallLlama(),    SmallQwen2(),    SmallQwen3(),
                          SmallMixtral(), SmallQwen2Moe(), SmallQwen3Moe(), SmallOlmoe()};
    TestWeights weights(specs[round % std::size(specs)]);
    Spec& spec = weights.spec_to_spoil();
    std::vector<MusterTensor>& tensors = weights.tensors_to_spoil();
    MusterTensor& tensor = tensors[random() % tensors.size()];
    switch (random() % 4) {
      case 0:
        tensor.shape[random() % tensor.shape.size()] = number();
        break;
      case 1:
        tensor.shape.resize(random() % 4, number());
        break;
      case 2:
        weights.values_to_spoil()[tensor.name].resize(random() % 100);
        break;
      case 3:
        if (spec.has_moe() && random() % 2 == 0) {
          v1::MoeSpec& moe = *spec.mutable_moe();
          constexpr const char* kSizes[] = {"experts", "top_k", "expert_width", "shared_width"};
          moe.GetReflection()->SetUInt32(
              &moe, moe.GetDescriptor()->FindFieldByName(kSizes[random() % std::size(kSizes)]),
              static_cast<uint32_t>(number()));
          moe.add_dense_layers(static_cast<uint32_t>(number()));
          break;
        }
        [[fallthrough]];
      default:
        const auto* const reflection = spec.GetReflection();
        constexpr const char* kSizes[] = {
            "layers",       "width",      "heads",   "kv_heads",
            "feed_forward", "vocabulary", "context", "pad_vocabulary_to"};
        reflection->SetUInt32(
            &spec, spec.GetDescriptor()->FindFieldByName(kSizes[random() % std::size(kSizes)]),
            static_cast<uint32_t>(number()));
    }
    const std::string folder = absl::StrCat(temp.path(), "/", round);
    const absl::Status status = WriteModelFolder(folder, {weights, "", std::nullopt});
    if (status.ok()) {
      EXPECT_TRUE(ModelFolder::Open(folder).ok());
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ++refused;
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace muster
