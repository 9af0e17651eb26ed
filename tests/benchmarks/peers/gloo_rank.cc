// One rank of Gloo's all-reduce over TCP, for `muster bench collectives` to measure.
//
//   gloo_rank RANK SIZE FOLDER ALGORITHMS CASES
//
// Ranks meet through files in FOLDER, which is theirs alone. Prints the lines of MeasureAllReduce
// for each of the algorithms (such as "ring,bcube"), under its name, and ends when its input does.

#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "tests/benchmarks/collectives/collectives_rank.h"

namespace muster {
namespace {

// All-reduce of one span of memory, ready to be run again and again.
using Reduce = std::function<void()>;
using MakeReduce =
    std::function<Reduce(const std::shared_ptr<gloo::Context>&, std::vector<float>& data)>;

template <typename Algorithm>
Reduce MakeAlgorithm(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  auto algorithm = std::make_shared<Algorithm>(context, std::vector<float*>{data.data()},
                                               static_cast<int>(data.size()));
  return [algorithm] { algorithm->run(); };
}

// The newer interface, which PyTorch uses.
Reduce MakeFunction(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data) {
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setOutput(data.data(), data.size());
  const auto sum =
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>);
  options->setReduceFunction(sum);
  return [options] { gloo::allreduce(*options); };
}

class GlooGroup final : public MeasuredGroup {
 public:
  GlooGroup(std::shared_ptr<gloo::Context> context, std::string algorithm, MakeReduce make)
      : context_(std::move(context)), algorithm_(std::move(algorithm)), make_(std::move(make)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  absl::StatusOr<float*> Open(size_t count) override {
    reduce_ = nullptr;
    data_.assign(count, 0);
    reduce_ = make_(context_, data_);
    return data_.data();
  }
  absl::Status AllReduce() override {
    reduce_();
    return absl::OkStatus();
  }
  absl::Status Barrier() override {
    gloo::BarrierOptions options(context_);
    // Apart from the all-reduce function's tag.
    options.setTag(1);
    gloo::barrier(options);
    return absl::OkStatus();
  }
  // Calls of bcube that follow one another give wrong sums from 4 ranks on: a rank that is ahead
  // overwrites what others have not read.
  absl::Status BetweenCalls() override {
    return algorithm_ == "bcube" ? Barrier() : absl::OkStatus();
  }

 private:
  const std::shared_ptr<gloo::Context> context_;
  const std::string algorithm_;
  const MakeReduce make_;
  std::vector<float> data_;
  Reduce reduce_;
};

const std::map<std::string, MakeReduce>& Algorithms() {
  static const auto& algorithms = *new std::map<std::string, MakeReduce>{
      {"ring", MakeAlgorithm<gloo::AllreduceRing<float>>},
      {"ring-chunked", MakeAlgorithm<gloo::AllreduceRingChunked<float>>},
      {"halving-doubling", MakeAlgorithm<gloo::AllreduceHalvingDoubling<float>>},
      {"bcube", MakeAlgorithm<gloo::AllreduceBcube<float>>},
      {"allreduce", MakeFunction},
  };
  return algorithms;
}

absl::Status Measure(int rank, int size, const std::string& folder, const std::string& algorithms,
                     const std::string& text) {
  MUSTER_ASSIGN_OR_RETURN(const auto cases, ParseCases(text));
  gloo::rendezvous::FileStore store(folder);
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::istringstream names(algorithms);
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = Algorithms().find(name);
    if (found == Algorithms().end()) {
      return absl::InvalidArgumentError("Gloo has no algorithm \"" + name + "\"");
    }
    GlooGroup group(context, name, found->second);
    MUSTER_RETURN_IF_ERROR(MeasureAllReduce(group, name, cases, std::cout));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: gloo_rank RANK SIZE FOLDER ALGORITHMS CASES\n";
    return EXIT_FAILURE;
  }
  absl::Status status;
  // Gloo reports by exceptions.
  try {
    status = muster::Measure(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], argv[4], argv[5]);
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  const int code = muster::EndOfRank(status, std::cout);
  // One that left now would break what others are still in.
  while (std::cin.get() != std::char_traits<char>::eof()) {
  }
  return code;
}
