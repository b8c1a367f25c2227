// A virtual network, from which storage and Service Bus are reached through
// private endpoints.

@description('Part of all names.')
param token string
param location string
param tags object

@description('Addresses of the network. Its first four /24 blocks are used.')
param addresses string

@description('The storage account.')
param storageId string

@description('The Service Bus namespaces.')
param busIds array

// Flex Consumption and Container Apps need a subnet each, delegated to the same
// service.
var appService = 'Microsoft.App/environments'

var zoneNames = concat(
  [
    'privatelink.blob.${environment().suffixes.storage}'
    'privatelink.queue.${environment().suffixes.storage}'
    'privatelink.table.${environment().suffixes.storage}'
  ],
  empty(busIds) ? [] : ['privatelink.servicebus.windows.net']
)

// zone is the index of a name in zoneNames.
var storageTargets = [
  { name: 'blob', id: storageId, group: 'blob', zone: 0 }
  { name: 'queue', id: storageId, group: 'queue', zone: 1 }
  { name: 'table', id: storageId, group: 'table', zone: 2 }
]
var busTargets = [for (id, i) in busIds: { name: 'bus${i}', id: id, group: 'namespace', zone: 3 }]
var targets = concat(storageTargets, busTargets)

resource network 'Microsoft.Network/virtualNetworks@2024-07-01' = {
  name: 'vnet-kennel-${token}'
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: [addresses] }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(addresses, 24, 1)
          delegations: [{ name: 'app', properties: { serviceName: appService } }]
        }
      }
      {
        name: 'workers'
        properties: {
          addressPrefix: cidrSubnet(addresses, 24, 2)
          delegations: [{ name: 'workers', properties: { serviceName: appService } }]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(addresses, 24, 3)
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }
}

resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-07-01' existing = {
  parent: network
  name: 'app'
}

resource workerSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-07-01' existing = {
  parent: network
  name: 'workers'
}

resource endpointSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-07-01' existing = {
  parent: network
  name: 'endpoints'
}

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [for name in zoneNames: {
  name: name
  location: 'global'
  tags: tags
}]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [for (name, i) in zoneNames: {
  parent: zones[i]
  name: 'kennel-${token}'
  location: 'global'
  tags: tags
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: network.id }
  }
}]

resource endpoints 'Microsoft.Network/privateEndpoints@2024-07-01' = [for target in targets: {
  name: 'pe-kennel-${target.name}-${token}'
  location: location
  tags: tags
  properties: {
    subnet: { id: endpointSubnet.id }
    privateLinkServiceConnections: [
      {
        name: target.name
        properties: {
          privateLinkServiceId: target.id
          groupIds: [target.group]
        }
      }
    ]
  }
}]

resource records 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-07-01' = [for (target, i) in targets: {
  parent: endpoints[i]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: target.group
        properties: { privateDnsZoneId: zones[target.zone].id }
      }
    ]
  }
}]

output appSubnetId string = appSubnet.id
output workerSubnetId string = workerSubnet.id
