#include "worker/models/create_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CreateModelTest, NoModel) {
  const auto model = CreateModel(v1::ModelSpec(), {.dense_features = 4, .classes = 2});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr("logistic_regression"), HasSubstr("deep_fm")));
}

TEST(CreateModelTest, EqualArgumentsGiveEqualDescriptions) {
  v1::ModelSpec spec;
  spec.mutable_mlp()->add_hidden(8);
  spec.mutable_mlp()->set_classes(3);
  const DatasetInfo data = {.dense_features = 4, .classes = 3};
  const auto a = CreateModel(spec, data);
  const auto b = CreateModel(spec, data);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ((*a)->description().tensors.size(), (*b)->description().tensors.size());
  for (size_t t = 0; t < (*a)->description().tensors.size(); ++t) {
    EXPECT_EQ((*a)->description().tensors[t].name, (*b)->description().tensors[t].name);
    EXPECT_EQ((*a)->description().tensors[t].shape, (*b)->description().tensors[t].shape);
  }
}

TEST(RequiredContextTest, OrdersOfTheTextModelOnly) {
  v1::ModelSpec spec;
  EXPECT_EQ(RequiredContext(spec), 0);
  spec.mutable_mlp()->set_classes(3);
  EXPECT_EQ(RequiredContext(spec), 0);
  spec.mutable_ngram()->set_orders(5);
  EXPECT_EQ(RequiredContext(spec), 5);
  spec.mutable_ngram()->set_orders(1000000000);
  EXPECT_EQ(RequiredContext(spec), 0);
}

}  // namespace
}  // namespace muster
