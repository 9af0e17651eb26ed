#include "worker/models/ngram.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DatasetInfo TextData(int64_t context) {
  return {.examples = 1000, .context = context, .vocabulary = 256, .classes = 256};
}

// Every byte of a text with the `context` bytes before it.
Batch Text(const std::string& text, int64_t context) {
  Batch batch;
  batch.Clear();
  batch.examples = text.size();
  for (int64_t i = 0; i < static_cast<int64_t>(text.size()); ++i) {
    for (int64_t c = context; c >= 1; --c) {
      batch.tokens.push_back(i < c ? -1 : static_cast<unsigned char>(text[i - c]));
    }
    batch.labels.push_back(static_cast<unsigned char>(text[i]));
  }
  return batch;
}

TEST(NgramTest, Gradients) {
  const auto model = MakeModel("ngram { orders: 3 embedding_dim: 4 hidden: 8 }", TextData(3));
  CheckModel(*model, Text("abcabdabc", 3));
}

TEST(NgramTest, GradientsWithBuckets) {
  const auto model =
      MakeModel("ngram { orders: 2 embedding_dim: 3 hidden: 5 buckets: 2 }", TextData(2));
  // Two orders of two buckets: look-ups of an example fall together.
  CheckModel(*model, Text("to be or not", 2));
}

TEST(NgramTest, Description) {
  const auto model = MakeModel("ngram { orders: 5 embedding_dim: 16 hidden: 128 }", TextData(5));
  const ModelDescription& description = model->description();
  EXPECT_EQ(description.units, 2);
  EXPECT_EQ(description.default_metric, "bits_per_byte");
  EXPECT_EQ(description.classes, 0);
  ASSERT_EQ(description.sparse_tables.size(), 1);
  EXPECT_EQ(description.sparse_tables[0].name, "embedding");
  EXPECT_EQ(description.sparse_tables[0].dim, 16);
  ASSERT_EQ(description.tensors.size(), 4);
  EXPECT_EQ(description.tensors[0].elements(), 128 * 5 * 16);
  EXPECT_EQ(description.tensors[2].elements(), 256 * 128);
}

TEST(NgramTest, EqualContextsShareRows) {
  const auto model = MakeModel("ngram { orders: 2 embedding_dim: 4 hidden: 4 }", TextData(2));
  const auto micro_batch = model->NewMicroBatch();
  ASSERT_TRUE(model->Load(Text("abab", 2), *micro_batch).ok());
  const SparseRows& rows = micro_batch->sparse[0];
  // Order 1: start, a, b, a. Order 2: start, start a, a b, b a.
  ASSERT_EQ(rows.inverse.size(), 8);
  EXPECT_EQ(rows.inverse[2], rows.inverse[6]);
  EXPECT_EQ(rows.keys.size(), 7);
}

TEST(NgramTest, LongerContextsThanNeededChangeNothing) {
  const auto model = MakeModel("ngram { orders: 2 embedding_dim: 4 hidden: 4 }", TextData(5));
  const auto narrow = model->NewMicroBatch();
  const auto wide = model->NewMicroBatch();
  ASSERT_TRUE(model->Load(Text("some text", 2), *narrow).ok());
  ASSERT_TRUE(model->Load(Text("some text", 5), *wide).ok());
  EXPECT_EQ(narrow->sparse[0].keys, wide->sparse[0].keys);
}

TEST(NgramTest, LearnsTextByHeart) {
  const auto model = MakeModel("ngram { orders: 3 embedding_dim: 8 hidden: 32 }", TextData(3));
  const Batch batch = Text("the cat sat on the mat and the rat ran at the hat", 3);
  LocalTrainer trainer(*model, 3);
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_NEAR(trainer.mean_loss(), std::log(256), 0.5);
  for (int step = 0; step < 400; ++step) ASSERT_TRUE(trainer.Step(batch, 1).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_LT(trainer.mean_loss(), 0.5);
  EXPECT_GT(trainer.micro_batch().correct, 40);
}

TEST(NgramTest, BuffersStayAllocatedFromBatchToBatch) {
  const auto model = MakeModel("ngram { orders: 3 embedding_dim: 8 hidden: 32 }", TextData(3));
  const auto micro_batch = model->NewMicroBatch();
  const Batch batch = Text("the cat sat on the mat", 3);
  ASSERT_TRUE(model->Load(batch, *micro_batch).ok());
  const SparseRows& rows = micro_batch->sparse[0];
  const void* before[] = {rows.keys.data(), rows.inverse.data(), rows.rows.data()};
  ASSERT_TRUE(model->Load(Text("the", 3), *micro_batch).ok());
  ASSERT_TRUE(model->Load(batch, *micro_batch).ok());
  const void* after[] = {rows.keys.data(), rows.inverse.data(), rows.rows.data()};
  EXPECT_THAT(after, ::testing::ElementsAreArray(before));
}

TEST(NgramTest, RefusesBatchesOfOtherData) {
  const auto model = MakeModel("ngram { orders: 3 embedding_dim: 8 hidden: 32 }", TextData(3));
  const auto micro_batch = model->NewMicroBatch();
  EXPECT_THAT(model->Load(Text("abcd", 2), *micro_batch).message(),
              AllOf(HasSubstr("8 tokens"), HasSubstr("reads 3 per example")));
  Batch batch = Text("abcd", 3);
  batch.tokens[4] = 256;
  EXPECT_THAT(model->Load(batch, *micro_batch).message(),
              AllOf(HasSubstr("Token 4"), HasSubstr("256")));
  batch.tokens[4] = -2;
  EXPECT_THAT(model->Load(batch, *micro_batch).message(), HasSubstr("Token 4"));
}

TEST(NgramTest, NamesWhatIsWrong) {
  EXPECT_THAT(CreateError("ngram { orders: 3 embedding_dim: 8 hidden: 8 }",
                          {.dense_features = 784, .classes = 10}),
              AllOf(HasSubstr("model.ngram reads text"), HasSubstr("784 dense features")));
  EXPECT_THAT(CreateError("ngram { embedding_dim: 8 hidden: 8 }", TextData(3)),
              HasSubstr("model.ngram.orders is 0; it must be from 1 to 32"));
  EXPECT_THAT(CreateError("ngram { orders: 3 hidden: 8 }", TextData(3)),
              HasSubstr("model.ngram.embedding_dim is 0"));
  EXPECT_THAT(CreateError("ngram { orders: 3 embedding_dim: 8 }", TextData(3)),
              HasSubstr("model.ngram.hidden is 0"));
  EXPECT_THAT(CreateError("ngram { orders: 4 embedding_dim: 8 hidden: 8 }", TextData(3)),
              AllOf(HasSubstr("orders is 4"), HasSubstr("3 bytes of context")));
}

}  // namespace
}  // namespace muster
