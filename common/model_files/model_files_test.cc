#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/temp_folder.h"
#include "common/model_files/import_checkpoint.h"
#include "common/model_files/model_file.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/padded_weights.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/weights.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_writer.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Spec = v1::TransformerSpec;

Spec Gpt2() {
  Spec spec;
  spec.set_layers(2);
  spec.set_width(4);
  spec.set_heads(2);
  spec.set_context(8);
  FillTransformerDefaults(11, spec);
  return spec;
}

Spec Llama() {
  Spec spec = Gpt2();
  spec.set_kv_heads(1);
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_separate_head(true);
  return spec;
}

// Weights in memory, each of a value of its own.
class TestWeights final : public Weights {
 public:
  // What may be wrong with a damaged file.
  std::vector<MusterTensor>& tensors_to_spoil() { return tensors_; }
  std::map<std::string, std::vector<float>>& values_to_spoil() { return values_; }
  Spec& spec_to_spoil() { return spec_; }

  explicit TestWeights(Spec spec) : spec_(std::move(spec)) {
    const HuggingFaceFamily family = *FamilyOf(spec_);
    tensors_ = MusterTensors(HuggingFaceTensors(family, spec_));
    float value = 1;
    for (const MusterTensor& tensor : tensors_) {
      int64_t elements = 1;
      for (const int64_t extent : tensor.shape) elements *= extent;
      for (int64_t i = 0; i < elements; ++i) values_[tensor.name].push_back(value++);
    }
  }

  const Spec& spec() const override { return spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    values = values_.at(tensor);
    return absl::OkStatus();
  }

 private:
  Spec spec_;
  std::vector<MusterTensor> tensors_;
  std::map<std::string, std::vector<float>> values_;
};

void ExpectSame(const Weights& actual, const Weights& expected) {
  EXPECT_EQ(actual.spec().DebugString(), expected.spec().DebugString());
  for (const MusterTensor& tensor : expected.tensors()) {
    std::vector<float> a, b;
    ASSERT_TRUE(actual.Read(tensor.name, a).ok()) << tensor.name;
    ASSERT_TRUE(expected.Read(tensor.name, b).ok());
    EXPECT_EQ(a, b) << tensor.name;
  }
  std::vector<float> none;
  EXPECT_EQ(actual.Read("none", none).code(), absl::StatusCode::kNotFound);
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Copies a folder's weights, changed by `change`, into its model.safetensors.
using Tensors = std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>>;
void Rewrite(const std::string& folder, const std::function<void(Tensors&)>& change,
             const std::string& name = "model.safetensors") {
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
  auto writer = SafetensorsWriter::Create(folder + "/" + name, announced, {});
  ASSERT_TRUE(writer.ok());
  for (const auto& [tensor_name, tensor] : tensors) (*writer)->Append(tensor.second);
  ASSERT_TRUE((*writer)->Finish().ok());
}

std::string OpenError(const std::string& folder) {
  return std::string(ModelFolder::Open(folder).status().message());
}

TEST(ModelFolderTest, WhatIsWrittenIsReadBack) {
  for (const Spec& spec : {Gpt2(), Llama()}) {
    const TempFolder temp;
    const std::string folder = temp.path() + "/made/here";
    const TestWeights weights(spec);
    ASSERT_TRUE(WriteModelFolder(folder, {weights, "{}", 5}).ok());
    EXPECT_EQ(Bytes(folder + "/tokenizer.json"), "{}");
    const auto read = ModelFolder::Open(folder);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(**read, weights);
  }
}

TEST(ModelFolderTest, WhatHasNoBiasesIsWrittenWithZeros) {
  const TempFolder temp;
  Spec spec = Gpt2();
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
  const TestWeights weights(Gpt2());
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
  const TestWeights weights(Gpt2());
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
  ExpectSame(**read, weights);
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
  temp.Write("model.safetensors.index.json",
             R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(**read, weights);
  temp.Write("model.safetensors.index.json", R"({"weight_map":{"a":"../model-1.safetensors"}})");
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("'../model-1.safetensors'"));
}

TEST(ModelFolderTest, SaysWhatIsMissingOrDoesNotFit) {
  const TempFolder temp;
  EXPECT_THAT(OpenError(temp.path() + "/none"), HasSubstr("is no folder"));
  EXPECT_THAT(OpenError(temp.path()), HasSubstr("no config.json"));
  ASSERT_TRUE(WriteModelFolder(temp.path(), {TestWeights(Llama()), "", std::nullopt}).ok());
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
  for (const Spec& spec : {Gpt2(), Llama()}) {
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
    TestWeights weights(round % 2 == 0 ? Gpt2() : Llama());
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

TEST(ImportCheckpointTest, IsACompleteCheckpointOfTheWeights) {
  const TempFolder temp;
  const TestWeights weights(Llama());
  LocalStorage storage;
  const std::string folder = temp.path() + "/made";
  const TokenizerIdentity tokenizer = {9, "t.json"};
  ASSERT_TRUE(WriteImportedCheckpoint(storage, folder, weights, tokenizer).ok());
  const auto reader = CheckpointReader::Open(storage, folder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->manifest().schema().tokenizer().fingerprint(), 9u);
  EXPECT_EQ((*reader)->manifest().schema().tokenizer().name(), "t.json");
  for (const MusterTensor& tensor : weights.tensors()) {
    std::vector<float> expected;
    ASSERT_TRUE(weights.Read(tensor.name, expected).ok());
    std::vector<float> values(expected.size());
    const absl::Status read = (*reader)->ReadTensor(tensor.name, "", 0, absl::MakeSpan(values));
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(values, expected) << tensor.name;
  }
  EXPECT_EQ(WriteImportedCheckpoint(storage, folder, weights, tokenizer).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(ModelFileTest, MetadataMakesAnExportedFileAModel) {
  const TempFolder temp;
  const TestWeights weights(Llama());
  std::vector<SafetensorsWriter::Tensor> announced;
  for (const MusterTensor& tensor : weights.tensors()) {
    announced.push_back({tensor.name, tensor.shape});
  }
  const std::string plain = temp.path() + "/plain";
  auto writer = SafetensorsWriter::Create(plain, announced, {{"job", "j1"}});
  ASSERT_TRUE(writer.ok());
  std::vector<float> values;
  for (const MusterTensor& tensor : weights.tensors()) {
    ASSERT_TRUE(weights.Read(tensor.name, values).ok());
    (*writer)->Append(values);
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_THAT(std::string(ModelFile::Open(plain).status().message()),
              HasSubstr("does not say what model it holds"));
  const std::string bytes = Bytes(plain);
  // The vocabulary is left to the data, as job files do; the weights tell it.
  Spec spec = weights.spec();
  spec.clear_vocabulary();
  spec.clear_norm_epsilon();
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, bytes.size()}) {
    std::string made;
    MetadataInserter inserter(
        [&spec](const MetadataInserter::Metadata& present) {
          EXPECT_EQ(present, (MetadataInserter::Metadata{{"job", "j1"}}));
          MetadataInserter::Metadata added = ModelFileMetadata(spec, "{\"a\": \"\u0120\"}");
          AddToMetadata({9, "t.json"}, added);
          return added;
        },
        [&made](absl::string_view part) {
          absl::StrAppend(&made, part);
          return absl::OkStatus();
        });
    for (size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_TRUE(inserter.Write(absl::string_view(bytes).substr(at, piece)).ok());
    }
    const auto model = ModelFile::Open(temp.Write("model", made));
    ASSERT_TRUE(model.ok()) << model.status();
    ExpectSame(**model, weights);
    EXPECT_EQ((*model)->tokenizer_json(), "{\"a\": \"\u0120\"}");
    ASSERT_TRUE((*model)->tokenizer().has_value());
    EXPECT_EQ((*model)->tokenizer()->fingerprint, 9u);
    EXPECT_EQ((*SafetensorsFile::Open(temp.path() + "/model"))->metadata().at("job"), "j1");
  }
}

TEST(ModelFileTest, SaysBytesAndThatNothingIsKnown) {
  EXPECT_EQ(ModelFileMetadata(Gpt2(), "").at("tokenizer"), "bytes");
  EXPECT_EQ(ModelFileMetadata(Gpt2(), std::nullopt).count("tokenizer"), 0u);
}

TEST(ModelFileTest, WhatIsNoFileIsRefused) {
  const auto sink = [](absl::string_view) { return absl::OkStatus(); };
  const auto nothing = [](const auto&) { return MetadataInserter::Metadata(); };
  EXPECT_FALSE(MetadataInserter(nothing, sink).Write(std::string(16, '\xff')).ok());
  EXPECT_FALSE(MetadataInserter(nothing, sink).Write(std::string("\2\0\0\0\0\0\0\0[]", 10)).ok());
}

TEST(ModelFileTest, ARefusalComesBeforeAnyByte) {
  bool written = false;
  MetadataInserter inserter(
      [](const auto&) -> absl::StatusOr<MetadataInserter::Metadata> {
        return absl::InvalidArgumentError("another tokenizer");
      },
      [&written](absl::string_view) {
        written = true;
        return absl::OkStatus();
      });
  const absl::Status status = inserter.Write(std::string("\2\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(status.message(), "another tokenizer");
  EXPECT_FALSE(written);
}

// What a job that pads its vocabulary starts from, and what it leaves in files that know no
// padding.
TEST(PaddedWeightsTest, AddsRowsOfZerosThatExportTakesAway) {
  for (const Spec& spec : {Gpt2(), Llama()}) {
    const TestWeights weights(spec);
    const PaddedWeights padded(weights, 8);
    EXPECT_EQ(padded.spec().vocabulary(), 11u);
    EXPECT_EQ(padded.spec().pad_vocabulary_to(), 8u);
    ASSERT_EQ(padded.tensors().size(), weights.tensors().size());
    for (size_t i = 0; i < weights.tensors().size(); ++i) {
      const MusterTensor& tensor = weights.tensors()[i];
      std::vector<float> plain, more;
      ASSERT_TRUE(weights.Read(tensor.name, plain).ok());
      ASSERT_TRUE(padded.Read(tensor.name, more).ok());
      if (tensor.name != "embedding.weight" && tensor.name != "head.weight") {
        EXPECT_EQ(padded.tensors()[i].shape, tensor.shape);
        EXPECT_EQ(more, plain);
        continue;
      }
      EXPECT_EQ(padded.tensors()[i].shape, (std::vector<int64_t>{16, 4}));
      plain.resize(16 * 4);
      EXPECT_EQ(more, plain) << tensor.name;
    }
    LocalStorage storage;
    const TempFolder checkpoint;
    const std::string folder = checkpoint.path() + "/weights";
    ASSERT_TRUE(WriteImportedCheckpoint(storage, folder, padded, std::nullopt).ok());
    const auto reader = CheckpointReader::Open(storage, folder);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::vector<float> row(4, 7);
    ASSERT_TRUE((*reader)->ReadTensor("embedding.weight", "", 15 * 4, absl::MakeSpan(row)).ok());
    EXPECT_THAT(row, ::testing::Each(0.0f));
    const TempFolder temp;
    ASSERT_TRUE(WriteModelFolder(temp.path(), {padded, "", std::nullopt}).ok());
    const auto read = ModelFolder::Open(temp.path());
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(**read, weights);
  }
}

}  // namespace
}  // namespace muster
