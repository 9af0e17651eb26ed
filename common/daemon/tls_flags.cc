#include "common/daemon/tls_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace muster {
namespace {

constexpr char kAuthority[] = "--tls-authority";
constexpr char kCertificate[] = "--tls-certificate";
constexpr char kKey[] = "--tls-key";

}  // namespace

void AddTlsFlags(CLI::App& app, TlsFiles& files) {
  app.add_option(kAuthority, files.authority,
                 "PEM file of the cluster's certificate authority. With the two below, everything "
                 "that leaves this process is under TLS, and every process at the other end needs "
                 "a certificate of the same authority. Without: plain text.");
  app.add_option(kCertificate, files.certificate,
                 "PEM file of this process's certificate; a daemon's names the host under which "
                 "others reach it.");
  app.add_option(kKey, files.key, "PEM file of the certificate's private key.");
}

std::vector<std::string> TlsArguments(const TlsFiles& files) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const std::string& flag, const std::string& path) {
    if (!path.empty()) arguments.push_back(flag + "=" + std::filesystem::absolute(path).string());
  };
  add(kAuthority, files.authority);
  add(kCertificate, files.certificate);
  add(kKey, files.key);
  return arguments;
}

}  // namespace muster
