//===- MpcCommunicationInterfaces.td - collectives ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONINTERFACES
#define MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONINTERFACES

include "mlir/IR/OpBase.td"

def Mpc_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    One collective message of all ranks. Results correspond to operands; all
    operands have one element type, the type on the wire.
  }];
  let methods = [
    InterfaceMethod<"How many ranks take part.", "uint64_t", "getRanks">,
    InterfaceMethod<"Bytes of the message that one rank sends: its operands'.", "int64_t",
                    "getMessageBytes", (ins), /*methodBody=*/[{}], /*defaultImplementation=*/[{
      int64_t bytes = 0;
      for (::mlir::Type type : this->getOperation()->getOperandTypes())
        bytes += ::mpc::byteCount(type);
      return bytes;
    }]>,
  ];
}

#endif // MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONINTERFACES
