#include "common/job/validation/sparse_tables_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::JobSpec SparseJob() {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  return spec;
}

void ExpectInvalid(const v1::JobSpec& spec, const std::string& text) {
  const absl::Status status = ValidateSparseTables(spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(SparseTablesValidatorTest, TakesAllOptionsOfRowsOnServers) {
  v1::JobSpec spec = SparseJob();
  EXPECT_TRUE(ValidateSparseTables(spec).ok());
  v1::SparseTableOptions& options = *spec.mutable_sparse_tables();
  options.set_cache_bytes(1 << 20);
  options.set_admit_after(3);
  options.set_expire_after_clocks(1000);
  options.set_keep_from_updates(5);
  EXPECT_TRUE(ValidateSparseTables(spec).ok());
  // Hybrid.
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_TRUE(ValidateSparseTables(spec).ok());
}

TEST(SparseTablesValidatorTest, RefusesEachWhereRowsGoByAllReduce) {
  const auto by_all_reduce = [] {
    v1::JobSpec spec = SparseJob();
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    return spec;
  };
  v1::JobSpec spec = by_all_reduce();
  spec.mutable_sparse_tables()->set_admit_after(1);
  EXPECT_TRUE(ValidateSparseTables(spec).ok());
  spec.mutable_sparse_tables()->set_admit_after(2);
  ExpectInvalid(spec, "sparse_tables.admit_after is 2; but update.sparse is ALL_REDUCE");
  spec = by_all_reduce();
  spec.mutable_sparse_tables()->set_cache_bytes(5);
  ExpectInvalid(spec, "sparse_tables.cache_bytes is 5");
  spec = by_all_reduce();
  spec.mutable_sparse_tables()->set_expire_after_clocks(7);
  ExpectInvalid(spec, "sparse_tables.expire_after_clocks is 7");
}

TEST(SparseTablesValidatorTest, RefusesWhatMeansNothing) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_mlp()->add_hidden(4);
  spec.mutable_sparse_tables()->set_cache_bytes(5);
  ExpectInvalid(spec, "no sparse tables");
  spec = SparseJob();
  spec.mutable_sparse_tables()->set_keep_from_updates(5);
  ExpectInvalid(spec, "expire_after_clocks is 0");
  spec = SparseJob();
  spec.mutable_sparse_tables()->set_expire_after_clocks(uint64_t{1} << 40);
  ExpectInvalid(spec, "at most 2147483648");
}

}  // namespace
}  // namespace muster
