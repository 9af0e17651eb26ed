// Weights in Muster's own exported file, in an imported checkpoint and with padding.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/model_files/import_checkpoint.h"
#include "common/model_files/model_file.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/padded_weights.h"
#include "common/model_files/test_weights.h"
#include "common/model_files/upcycled_weights.h"
#include "common/model_files/write_model_folder.h"
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

TEST(ImportCheckpointTest, IsACompleteCheckpointOfTheWeights) {
  const TempFolder temp;
  const TestWeights weights(SmallQwen2Moe());
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
  const TestWeights weights(SmallQwen2Moe());
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
  const std::string bytes = BytesOfFile(plain);
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
    ExpectSameWeights(**model, weights);
    EXPECT_EQ((*model)->tokenizer_json(), "{\"a\": \"\u0120\"}");
    ASSERT_TRUE((*model)->tokenizer().has_value());
    EXPECT_EQ((*model)->tokenizer()->fingerprint, 9u);
    EXPECT_EQ((*SafetensorsFile::Open(temp.path() + "/model"))->metadata().at("job"), "j1");
  }
}

TEST(ModelFileTest, SaysBytesAndThatNothingIsKnown) {
  EXPECT_EQ(ModelFileMetadata(SmallGpt2(), "").at("tokenizer"), "bytes");
  EXPECT_EQ(ModelFileMetadata(SmallGpt2(), std::nullopt).count("tokenizer"), 0u);
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
  for (const Spec& spec : {SmallGpt2(), SmallLlama(), SmallMixtral()}) {
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
    ExpectSameWeights(**read, weights);
  }
}

// Every expert is the dense layer, and the routers of two blocks differ.
TEST(UpcycledWeightsTest, AreAMixtralOfCopies) {
  const TestWeights dense(SmallLlama());
  const auto upcycled = UpcycledWeights::Create(dense, 3, 2);
  ASSERT_TRUE(upcycled.ok()) << upcycled.status();
  EXPECT_EQ((*upcycled)->spec().moe().expert_width(), dense.spec().feed_forward());
  for (const char* part : {"up", "down"}) {
    std::vector<float> one, all;
    ASSERT_TRUE(dense.Read(absl::StrCat("block1.", part, ".weight"), one).ok());
    ASSERT_TRUE((*upcycled)->Read(absl::StrCat("block1.experts.", part, ".weight"), all).ok());
    ASSERT_EQ(all.size(), 3 * one.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], one[i % one.size()]);
  }
  std::vector<float> first, second;
  ASSERT_TRUE((*upcycled)->Read("block0.router.weight", first).ok());
  ASSERT_TRUE((*upcycled)->Read("block1.router.weight", second).ok());
  EXPECT_EQ(first.size(), 3u * 4u);
  EXPECT_NE(first, second);
  const TempFolder temp;
  ASSERT_TRUE(WriteModelFolder(temp.path(), {**upcycled, "", std::nullopt}).ok());
  const auto read = ModelFolder::Open(temp.path());
  ASSERT_TRUE(read.ok()) << read.status();
  for (const MusterTensor& tensor : (*upcycled)->tensors()) {
    std::vector<float> wanted, got;
    ASSERT_TRUE((*upcycled)->Read(tensor.name, wanted).ok());
    ASSERT_TRUE((*read)->Read(tensor.name, got).ok()) << tensor.name;
    EXPECT_EQ(got, wanted) << tensor.name;
  }
}

TEST(UpcycledWeightsTest, RefusesWhatHasNoPlainCopies) {
  EXPECT_THAT(
      std::string(UpcycledWeights::Create(TestWeights(SmallGpt2()), 4, 2).status().message()),
      ::testing::HasSubstr("the model has biases"));
  EXPECT_THAT(
      std::string(UpcycledWeights::Create(TestWeights(SmallMixtral()), 4, 2).status().message()),
      ::testing::HasSubstr("the model has 3 experts already"));
}

}  // namespace
}  // namespace muster
