#include "common/model_files/write_model_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/test_weights.h"
#include "common/model_files/weights.h"
#include "common/safetensors/safetensors_file.h"
#include "common/tensor/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json JsonOf(const std::string& path) { return Json::parse(BytesOfFile(path)); }

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Weights of which one element is another.
class OtherElement final : public Weights {
 public:
  OtherElement(const Weights& weights, float value) : weights_(weights), value_(value) {}

  const v1::TransformerSpec& spec() const override { return weights_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return weights_.tensors(); }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    const absl::Status status = weights_.Read(tensor, values);
    if (tensor == "embedding.weight") values.back() = value_;
    return status;
  }

 private:
  const Weights& weights_;
  const float value_;
};

TEST(WriteModelFolderTest, WeightsAreRoundedToTheTypeThatIsAskedFor) {
  const std::map<DType, std::pair<std::string, std::string>> names = {
      {DType::kF32, {"F32", "float32"}},
      {DType::kBf16, {"BF16", "bfloat16"}},
      {DType::kF16, {"F16", "float16"}}};
  for (const auto& [type, name] : names) {
    const TempFolder temp;
    const TestWeights weights(SmallQwen3());
    ModelFolderContents contents{weights};
    contents.type = type;
    ASSERT_TRUE(WriteModelFolder(temp.path(), contents).ok());
    EXPECT_EQ(JsonOf(temp.path() + "/config.json")["torch_dtype"], name.second);
    const auto file = SafetensorsFile::Open(temp.path() + "/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& tensor : (*file)->tensors()) EXPECT_EQ(tensor.second.dtype, name.first);
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<float> values, expected;
    for (const MusterTensor& tensor : weights.tensors()) {
      ASSERT_TRUE((*read)->Read(tensor.name, values).ok());
      ASSERT_TRUE(weights.Read(tensor.name, expected).ok());
      if (type != DType::kF32) {
        std::vector<uint16_t> bits(expected.size());
        RoundToHalf(type, expected, bits.data());
        WidenHalf(type, reinterpret_cast<const std::byte*>(bits.data()), absl::MakeSpan(expected));
      }
      EXPECT_EQ(values, expected) << tensor.name;
    }
  }
}

TEST(WriteModelFolderTest, AValueThatF16CannotHoldIsRefusedByItsTensor) {
  const TestWeights weights(SmallLlama());
  for (const float value : {65536.0f, -1e30f}) {
    const TempFolder temp;
    const OtherElement large(weights, value);
    ModelFolderContents contents{large};
    contents.type = DType::kF16;
    const absl::Status status = WriteModelFolder(temp.path(), contents);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("bf16")));
    EXPECT_FALSE(std::filesystem::exists(temp.path() + "/config.json"));
  }
}

TEST(WriteModelFolderTest, WeightsAreDividedAmongFilesThatAnIndexNames) {
  const TestWeights weights(SmallLlama());
  // A tensor that is larger has a file of its own; the last size is enough for all.
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{700}, uint64_t{2000}, uint64_t{1} << 30}) {
    const TempFolder temp;
    ModelFolderContents contents{weights};
    contents.file_bytes = bytes;
    ASSERT_TRUE(WriteModelFolder(temp.path(), contents).ok());
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameWeights(**read, weights);
    if (bytes == uint64_t{1} << 30) {
      EXPECT_THAT(FilesIn(temp.path()),
                  ElementsAre("config.json", "generation_config.json", "model.safetensors"));
      continue;
    }
    const Json index = JsonOf(temp.path() + "/model.safetensors.index.json");
    std::map<std::string, uint64_t> by_file;
    uint64_t all = 0;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      const auto opened = SafetensorsFile::Open(temp.path() + "/" + file.get<std::string>());
      ASSERT_TRUE(opened.ok()) << opened.status();
      const uint64_t size = (*opened)->tensors().at(tensor).bytes.size();
      by_file[file] += size;
      all += size;
      if ((*opened)->tensors().size() > 1) EXPECT_LE(by_file[file], bytes);
    }
    EXPECT_EQ(index["metadata"]["total_size"], all);
    ASSERT_GT(by_file.size(), 1u);
    EXPECT_EQ(by_file.begin()->first,
              absl::StrCat("model-00001-of-000", by_file.size() < 10 ? "0" : "", by_file.size(),
                           ".safetensors"));
  }
}

TEST(WriteModelFolderTest, FilesOfTheModelBeforeDoNotStay) {
  const TempFolder temp;
  const TestWeights first(SmallLlama()), second(SmallQwen2());
  ModelFolderContents several{first, "{}"};
  several.file_bytes = 1000;
  several.chat_template = "{{ messages }}";
  ASSERT_TRUE(WriteModelFolder(temp.path(), several).ok());
  temp.Write("chat_template.jinja", "of another model");
  temp.Write("notes.txt", "mine");
  ASSERT_TRUE(WriteModelFolder(temp.path(), {second}, Replace::kFiles).ok());
  EXPECT_THAT(FilesIn(temp.path()), ElementsAre("config.json", "generation_config.json",
                                                "model.safetensors", "notes.txt"));
  const auto read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameWeights(**read, second);
  ASSERT_TRUE(WriteModelFolder(temp.path(), several, Replace::kFiles).ok());
  const auto again = ModelFolder::Open(temp.path());
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSameWeights(**again, first);
  EXPECT_FALSE(std::filesystem::exists(temp.path() + "/model.safetensors"));
}

TEST(WriteModelFolderTest, ChatsAndTheirTokensAreWrittenWhereReadersLook) {
  const TempFolder temp;
  const TestWeights weights(SmallQwen2());
  ModelFolderContents contents{weights, "{}", 5, "</s>", "<s>", 4};
  contents.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  contents.special_tokens = {{"eos_token", "<|im_end|>"}, {"pad_token", "</s>"}};
  contents.ends_of_turns = {7, 5};
  ASSERT_TRUE(WriteModelFolder(temp.path(), contents).ok());
  const Json tokenizer = JsonOf(temp.path() + "/tokenizer_config.json");
  EXPECT_EQ(tokenizer["chat_template"], contents.chat_template);
  EXPECT_EQ(tokenizer["eos_token"], "<|im_end|>");
  EXPECT_EQ(tokenizer["pad_token"], "</s>");
  EXPECT_EQ(tokenizer["bos_token"], "<s>");
  for (const char* name : {"/config.json", "/generation_config.json"}) {
    const Json json = JsonOf(temp.path() + name);
    EXPECT_EQ(json["bos_token_id"], 4) << name;
    EXPECT_EQ(json["eos_token_id"], Json({5, 7})) << name;
  }
}

}  // namespace
}  // namespace muster
