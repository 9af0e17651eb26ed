#include "worker/generate/loaded_transformer.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model_files/adapter_layout.h"
#include "common/model_files/merged_weights.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/upcycled_weights.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/generate/generator.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/gradient_check.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = "worker/generate/testdata/";

// A model of the fixture and what PyTorch says of it (testdata/make_models.py).
struct Reference {
  std::unique_ptr<const ModelFolder> folder;
  std::vector<int32_t> tokens;
  // [tokens, vocabulary].
  std::vector<float> logits;
};

Reference Open(const std::string& name) {
  Reference reference;
  auto folder = ModelFolder::Open(absl::StrCat(kData, name));
  EXPECT_TRUE(folder.ok()) << folder.status();
  reference.folder = *std::move(folder);
  const auto expected = SafetensorsFile::Open(absl::StrCat(kData, name, "/expected.safetensors"));
  EXPECT_TRUE(expected.ok()) << expected.status();
  const SafetensorsTensor& tokens = (*expected)->tensors().at("tokens");
  reference.tokens.resize(tokens.elements());
  memcpy(reference.tokens.data(), tokens.bytes.data(), tokens.bytes.size());
  const SafetensorsTensor& logits = (*expected)->tensors().at("logits");
  reference.logits.resize(logits.elements());
  memcpy(reference.logits.data(), logits.bytes.data(), logits.bytes.size());
  return reference;
}

class LoadedTransformerTest : public testing::TestWithParam<const char*> {};

// Whatever pieces the tokens come in, the logits after each piece are PyTorch's.
TEST_P(LoadedTransformerTest, GivesPyTorchsLogits) {
  const Reference reference = Open(GetParam());
  const auto model = LoadedTransformer::Create(*reference.folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const int64_t V = (*model)->vocabulary();
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{5}, reference.tokens.size()}) {
    (*model)->Forget();
    for (size_t at = 0; at < reference.tokens.size(); at += piece) {
      const auto tokens = absl::MakeConstSpan(reference.tokens).subspan(at, piece);
      const auto logits = (*model)->Take(tokens);
      ASSERT_TRUE(logits.ok()) << logits.status();
      const size_t last = at + tokens.size() - 1;
      ASSERT_EQ(static_cast<int64_t>(logits->size()), V);
      for (int64_t v = 0; v < V; ++v) {
        EXPECT_NEAR((*logits)[v], reference.logits[last * V + v], 1e-4) << piece << " " << last;
      }
    }
  }
}

// A cache of keys and values changes nothing: with it, each token's logits are those of a pass over
// all tokens from the start.
TEST_P(LoadedTransformerTest, CachedLogitsAreThoseOfAWholePass) {
  const Reference reference = Open(GetParam());
  const auto cached = LoadedTransformer::Create(*reference.folder);
  const auto whole = LoadedTransformer::Create(*reference.folder);
  ASSERT_TRUE(cached.ok() && whole.ok());
  for (size_t i = 0; i < reference.tokens.size(); ++i) {
    const auto tokens = absl::MakeConstSpan(reference.tokens).first(i + 1);
    const auto a = (*cached)->Take(tokens.last(1));
    (*whole)->Forget();
    const auto b = (*whole)->Take(tokens);
    ASSERT_TRUE(a.ok() && b.ok());
    for (size_t v = 0; v < b->size(); ++v) EXPECT_NEAR((*a)[v], (*b)[v], 1e-5) << i;
  }
}

// Names and shapes of files are those that the model computes with.
TEST_P(LoadedTransformerTest, TheLayoutIsThatOfTheModel) {
  const Reference reference = Open(GetParam());
  const v1::TransformerSpec& spec = reference.folder->spec();
  const auto shape = ResolveTransformer(spec, spec.vocabulary());
  ASSERT_TRUE(shape.ok()) << shape.status();
  size_t own = 0;
  for (const TensorSpec& tensor : MakeTransformerTensors(*shape).specs) {
    if (!tensor.tied_to.empty()) continue;
    ++own;
    bool found = false;
    for (const MusterTensor& each : reference.folder->tensors()) {
      if (each.name != tensor.name) continue;
      found = true;
      EXPECT_EQ(each.shape, tensor.shape) << tensor.name;
    }
    EXPECT_TRUE(found) << tensor.name;
  }
  EXPECT_EQ(reference.folder->tensors().size(), own);
}

INSTANTIATE_TEST_SUITE_P(Families, LoadedTransformerTest,
                         testing::Values("gpt2", "llama", "llama3", "mistral", "qwen2",
                                         "qwen2_window", "qwen3", "mixtral", "qwen2_moe",
                                         "qwen3_moe", "olmoe"));

// Whichever experts a router chooses, copies of a feed-forward layer compute what it does.
TEST(UpcycledTransformerTest, GivesTheDenseModelsLogits) {
  const Reference reference = Open("llama");
  const auto upcycled = UpcycledWeights::Create(*reference.folder, /*experts=*/4, /*top_k=*/2);
  ASSERT_TRUE(upcycled.ok()) << upcycled.status();
  const auto model = LoadedTransformer::Create(**upcycled);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto logits = (*model)->Take(reference.tokens);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const size_t first = reference.logits.size() - logits->size();
  for (size_t v = 0; v < logits->size(); ++v) {
    EXPECT_NEAR((*logits)[v], reference.logits[first + v], 1e-4);
  }
}

// A head that is left out, as the file would do without it.
class Without final : public Weights {
 public:
  Without(const Weights& all, const std::string& name) : all_(all) {
    for (const MusterTensor& tensor : all.tensors()) {
      if (tensor.name != name) tensors_.push_back(tensor);
    }
  }
  const v1::TransformerSpec& spec() const override { return all_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    return all_.Read(tensor, values);
  }
  std::vector<MusterTensor> tensors_;

 private:
  const Weights& all_;
};

// Other weights with random adapters of every layer.
class Adapted final : public Weights {
 public:
  Adapted(const Weights& plain, const v1::AdapterSpec& adapter)
      : plain_(plain), tensors_(plain.tensors()) {
    const auto add = [this](const std::string& name, int64_t rows, int64_t columns) {
      tensors_.push_back({name, {rows, columns}});
      values_[name] = RandomValues(rows * columns, values_.size());
      for (float& value : values_[name]) value *= 0.1f;
    };
    for (uint32_t block = 0; block < plain.spec().layers(); ++block) {
      for (const AdapterPlace& place : AdapterPlaces(plain.spec(), adapter)) {
        add(AdapterTensorName(block, place.target, "down"), adapter.rank(), place.in);
        add(AdapterTensorName(block, place.target, "up"), place.rows, adapter.rank());
      }
    }
  }

  const v1::TransformerSpec& spec() const override { return plain_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    const auto own = values_.find(tensor);
    if (own == values_.end()) return plain_.Read(tensor, values);
    values = own->second;
    return absl::OkStatus();
  }

 private:
  const Weights& plain_;
  std::vector<MusterTensor> tensors_;
  std::map<std::string, std::vector<float>> values_;
};

TEST_P(LoadedTransformerTest, MergedAdaptersGiveTheLogitsOfAdapters) {
  const Reference reference = Open(GetParam());
  if (reference.folder->spec().has_moe()) return;
  v1::AdapterSpec spec;
  spec.set_rank(3);
  spec.set_alpha(6);
  for (const char* target : {"query", "key", "value", "output", "up", "down"}) {
    spec.add_targets(target);
  }
  const Adapted adapted(*reference.folder, spec);
  const auto apart = LoadedTransformer::Create(adapted, ResolveAdapter(spec));
  const auto merged = LoadedTransformer::Create(MergedWeights(adapted, spec));
  ASSERT_TRUE(apart.ok()) << apart.status();
  ASSERT_TRUE(merged.ok()) << merged.status();
  double difference = 0, norm = 0, moved = 0;
  const std::vector<float> expected = [&] {
    const absl::Span<const float> logits = (*merged)->Take(reference.tokens).value();
    return std::vector<float>(logits.begin(), logits.end());
  }();
  const absl::Span<const float> logits = (*apart)->Take(reference.tokens).value();
  const float* const plain =
      reference.logits.data() + (reference.tokens.size() - 1) * expected.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(logits[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
    moved += std::pow(plain[i] - expected[i], 2);
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-5);
  EXPECT_GT(std::sqrt(moved / norm), 1e-3);
}

TEST(LoadedTransformerRefusalsTest, TensorsThatAreMissingOrOfAnotherShapeAreNamed) {
  const Reference reference = Open("llama");
  Without weights(*reference.folder, "block1.up.weight");
  EXPECT_THAT(std::string(LoadedTransformer::Create(weights).status().message()),
              HasSubstr("tensor block1.up.weight is missing, expected shape [80, 24]"));
  weights.tensors_.push_back({"block1.up.weight", {40, 48}});
  EXPECT_THAT(std::string(LoadedTransformer::Create(weights).status().message()),
              HasSubstr("block1.up.weight has shape [40, 48], expected shape [80, 24]"));
}

}  // namespace
}  // namespace muster
