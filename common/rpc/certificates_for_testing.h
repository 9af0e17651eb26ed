#ifndef MUSTER_COMMON_RPC_CERTIFICATES_FOR_TESTING_H_
#define MUSTER_COMMON_RPC_CERTIFICATES_FOR_TESTING_H_

#include <openssl/types.h>

#include <memory>
#include <string>

#include "common/rpc/tls_files.h"

namespace muster {

// A certificate authority with its certificates, made at run time, so that no key is kept anywhere
// and nothing expires.
class CertificatesForTesting {
 public:
  enum class Validity { kNow, kExpired, kNotYet };

  // Writes into `folder`, which exists. `name` tells authorities of one folder apart.
  CertificatesForTesting(const std::string& folder, const std::string& name);
  ~CertificatesForTesting();

  // Writes the files of one process, whose certificate names `host` (an IPv4 address). `use`: the
  // extended key usage ("clientAuth"); empty: any.
  TlsFiles Issue(const std::string& process, Validity validity = Validity::kNow,
                 const std::string& host = "127.0.0.1", const std::string& use = "");

 private:
  const std::string prefix_;
  long serial_ = 1;
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> authority_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_CERTIFICATES_FOR_TESTING_H_
