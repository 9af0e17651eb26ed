// One rank of OpenMPI's all-reduce, for `muster bench collectives` to measure; mpirun starts it.
//
//   openmpi_rank WORLD CASES
//
// Prints the lines of MeasureAllReduce.

#include <mpi/mpi.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/benchmarks/collectives/collectives_rank.h"

namespace muster {
namespace {

absl::Status FromMpi(const char* what, int result) {
  if (result == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  return absl::InternalError(absl::StrCat(what, " failed: ", text));
}

class OpenMpiGroup final : public MeasuredGroup {
 public:
  OpenMpiGroup() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::StatusOr<float*> Open(size_t count) override {
    data_.assign(count, 0);
    return data_.data();
  }
  absl::Status AllReduce() override {
    return FromMpi("MPI_Allreduce", MPI_Allreduce(MPI_IN_PLACE, data_.data(), data_.size(),
                                                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  }
  absl::Status Barrier() override { return FromMpi("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD)); }

 private:
  int rank_ = 0;
  int size_ = 0;
  std::vector<float> data_;
};

absl::Status Measure(const std::string& world, const std::string& text) {
  MUSTER_ASSIGN_OR_RETURN(const auto cases, ParseCases(text));
  OpenMpiGroup group;
  if (absl::StrCat(group.size()) != world) {
    return absl::FailedPreconditionError(absl::StrCat("mpirun made a world of ", group.size(),
                                                      ", expected ", world,
                                                      ": it is not that of the library"));
  }
  return MeasureAllReduce(group, "allreduce", cases, std::cout);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return EXIT_FAILURE;
  const absl::Status status = argc == 3
                                  ? muster::Measure(argv[1], argv[2])
                                  : absl::InvalidArgumentError("usage: openmpi_rank WORLD CASES");
  if (!status.ok()) {
    muster::EndOfRank(status, std::cout);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // mpirun mixes the ranks' lines.
  if (rank == 0) muster::EndOfRank(status, std::cout);
  MPI_Finalize();
  return EXIT_SUCCESS;
}
