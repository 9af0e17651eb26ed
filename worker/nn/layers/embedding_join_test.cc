#include "worker/nn/layers/embedding_join.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Four rows; row 2 is used by two examples, and twice by the first.
SparseRows Rows(int64_t dim) {
  SparseRows rows;
  rows.keys = {10, 11, 12, 13};
  rows.inverse = {2, 0, 2, 1, 2, 3};
  rows.rows = RandomValues(rows.keys.size() * dim, 5);
  return rows;
}

void CheckJoin(const EmbeddingJoin::Shape& shape) {
  const EmbeddingJoin join(shape);
  SparseRows rows = Rows(shape.row_dim);
  const int64_t B = rows.inverse.size() / shape.lookups;
  std::vector<float> out(B * shape.out_features, 7);
  const std::vector<float> out_gradient = RandomValues(out.size(), 6);
  const auto value = [&] {
    join.Forward({}, rows, absl::MakeSpan(out));
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out_gradient[i] * out[i];
    return sum;
  };
  value();
  for (int64_t i = 0; i < B; ++i) {
    for (int64_t c = shape.lookups * shape.width; c < shape.out_features; ++c) {
      EXPECT_EQ(out[i * shape.out_features + c], 7) << "beyond the rows nothing is written";
    }
  }
  // Gradients are added.
  rows.gradients.assign(rows.rows.size(), 1);
  join.BackwardRows({}, out_gradient, rows);
  std::vector<float> gradient = rows.gradients;
  for (float& g : gradient) g -= 1;
  ExpectGradient({.what = "rows"}, value, absl::MakeSpan(rows.rows), gradient);
}

TEST(EmbeddingJoinTest, WritesRowsSideBySide) {
  SparseRows rows;
  rows.inverse = {1, 0, 1, 1};
  rows.rows = {1, 2, 3, 4};
  std::vector<float> out(8);
  EmbeddingJoin({.lookups = 2, .row_dim = 2, .column = 0, .width = 2, .out_features = 4})
      .Forward({}, rows, absl::MakeSpan(out));
  EXPECT_THAT(out, ElementsAre(3, 4, 1, 2, 3, 4, 3, 4));
}

TEST(EmbeddingJoinTest, GradientsOfWholeRows) {
  CheckJoin({.lookups = 3, .row_dim = 4, .column = 0, .width = 4, .out_features = 12});
  CheckJoin({.lookups = 1, .row_dim = 3, .column = 0, .width = 3, .out_features = 3});
}

TEST(EmbeddingJoinTest, GradientsOfSomeColumns) {
  CheckJoin({.lookups = 2, .row_dim = 5, .column = 1, .width = 4, .out_features = 11});
  CheckJoin({.lookups = 3, .row_dim = 5, .column = 2, .width = 2, .out_features = 6});
}

TEST(EmbeddingJoinTest, GradientsOfWholeRowsWithOthersBehind) {
  CheckJoin({.lookups = 2, .row_dim = 3, .column = 0, .width = 3, .out_features = 8});
}

}  // namespace
}  // namespace muster
