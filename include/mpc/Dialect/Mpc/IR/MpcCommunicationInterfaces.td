//===- MpcCommunicationInterfaces.td - what messages share --*- tablegen -*-===//
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
    One message of all ranks. Results belong to operands one by one; all operands
    have one element type, which is what goes over the wire.
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
