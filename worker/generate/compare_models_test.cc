#include "worker/generate/compare_models.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/write_model_folder.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CompareModelsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto folder = ModelFolder::Open(absl::StrCat("worker/generate/testdata/", GetParam()));
    ASSERT_TRUE(folder.ok()) << folder.status();
    original_ = *std::move(folder);
  }

  // Writes the model in a type, and compares what is read with the model in another one.
  absl::Status WriteAndCompare(DType written, DType compared) {
    const TempFolder temp;
    ModelFolderContents contents{*original_};
    contents.type = written;
    contents.file_bytes = 20'000;
    const absl::Status status = WriteModelFolder(temp.path(), contents);
    EXPECT_TRUE(status.ok()) << status;
    const auto folder = ModelFolder::Open(temp.path());
    EXPECT_TRUE(folder.ok()) << folder.status();
    return CompareModels({"the folder", folder->get()}, {"the job", original_.get()}, compared);
  }

  std::unique_ptr<const ModelFolder> original_;
};

TEST_P(CompareModelsTest, AFolderIsTheModelThatWasWritten) {
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    const absl::Status same = WriteAndCompare(type, type);
    EXPECT_TRUE(same.ok()) << same;
  }
  const absl::Status other = WriteAndCompare(DType::kBf16, DType::kF32);
  EXPECT_EQ(other.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("after sequence 1 of 4 the logit of token 0 is "),
                    HasSubstr(" with the folder, "), HasSubstr(" with the job")));
}

INSTANTIATE_TEST_SUITE_P(Families, CompareModelsTest,
                         testing::Values("gpt2", "llama3", "qwen2_moe"));

// A matrix that was written transposed, a tensor in another's place.
class Spoilt final : public Weights {
 public:
  Spoilt(const Weights& weights, std::string tensor)
      : weights_(weights), tensor_(std::move(tensor)) {}

  const v1::TransformerSpec& spec() const override { return weights_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return weights_.tensors(); }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    const absl::Status status = weights_.Read(tensor, values);
    if (tensor == tensor_) std::swap(values.front(), values.back());
    return status;
  }

 private:
  const Weights& weights_;
  const std::string tensor_;
};

TEST(CompareWeightsTest, EveryTensorMatters) {
  const auto folder = ModelFolder::Open("worker/generate/testdata/llama");
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const MusterTensor& tensor : (*folder)->tensors()) {
    const Spoilt spoilt(**folder, tensor.name);
    const absl::Status status = CompareModels({"a", &spoilt}, {"b", folder->get()}, DType::kF32);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << tensor.name;
  }
}

TEST(CompareTokensTest, EachTextMustHaveTheSameTokens) {
  const auto folder = ModelFolder::Open("worker/generate/testdata/llama");
  ASSERT_TRUE(folder.ok()) << folder.status();
  const ByteTokenizer bytes;
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.push_back("ll");
  vocabulary.merges = {{'l', 'l'}};
  const auto merged = BpeTokenizer::Create(vocabulary);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto compare = [&](const Tokenizer* a, const Tokenizer* b) {
    return CompareModels({"a", folder->get(), a}, {"b", folder->get(), b}, DType::kF32);
  };
  EXPECT_TRUE(compare(&bytes, &bytes).ok());
  const absl::Status other = compare(merged->get(), &bytes);
  EXPECT_EQ(other.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(other.message(),
            "the text \"Hello, world!\" has other tokens: number 3 is 256 with a, 108 with b");
  EXPECT_EQ(compare(&bytes, nullptr).message(), "b has no tokenizer, but a has one");
  EXPECT_EQ(compare(nullptr, &bytes).message(), "a has no tokenizer, but b has one");
}

TEST(CompareTokensTest, TheTextsAreForty) {
  const auto texts = ComparedTexts();
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 40u);
}

}  // namespace
}  // namespace muster
