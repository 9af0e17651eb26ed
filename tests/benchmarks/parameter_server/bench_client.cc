#include "tests/benchmarks/parameter_server/bench_client.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

std::unique_ptr<ParameterClient> MakeBenchClient(const std::string& server, const std::string& way,
                                                 const std::shared_ptr<ChannelIo>& io) {
  if (way == "grpc") return MakeGrpcParameterClient(server, RpcCredentials::PlainText());
  DataChannelClientOptions options;
  if (way == "tcp" || way == "tls") options.shared_memory_bytes = 0;
  if (way == "shared_memory") options.tcp = DataChannelClientOptions::Tcp::kNotUsed;
  options.opened = [way](const std::string& kind, const std::string& reason) {
    if (kind == way) return;
    std::cout << "error: asked for " << way << ", got " << kind << ": " << reason << std::endl;
    std::_Exit(EXIT_FAILURE);
  };
  return MakeDataChannelClient(server, RpcCredentials::PlainText(), io, std::move(options));
}

}  // namespace muster
